"""`python -m graphlint.runtime.child SPEC RESULT`: one traced program in a fresh process, for a GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from graphlint.runtime.spec import Spec
from graphlint.runtime.target import Target


def encode(spec: Spec) -> str:
    return json.dumps({**asdict(spec), "target": asdict(spec.target)})


def decode(text: str) -> Spec:
    data = json.loads(text)
    target = data.pop("target")
    target["arguments"], target["shapes"] = tuple(target["arguments"]), tuple(target["shapes"])
    data["version"] = tuple(data["version"])
    return Spec(Target(**target), **data)


def main(text: str, result: str) -> int:
    from graphlint.runtime.process import end_at_the_limit, write
    from graphlint.runtime.worker import work

    end_at_the_limit()
    spec = decode(text)
    done = work(spec)
    write(done, Path(result))
    return done.exit


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
