// Starts `graphlint lsp` and connects it; everything else is the server's.
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("graphlint");
  const [command, ...args] = settings.get("command");
  const options = {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "vscode-notebook-cell", language: "python" },
    ],
    initializationOptions: {
      // Rules of your own are code: the server loads them only where you said that you trust the workspace.
      trusted: vscode.workspace.isTrusted,
      ruleFolders: settings.get("ruleFolders"),
      python: settings.get("python"),
      workspace: settings.get("workspace"),
      debounce: settings.get("debounce"),
    },
  };
  client = new LanguageClient("graphlint", "graphlint", { command, args, transport: TransportKind.stdio }, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `graphlint: \`${[command, ...args].join(" ")}\` does not start. Install it with ` +
        "`pip install 'torch-graphlint[lsp]'` and set `graphlint.command` if it is not on the PATH.",
    );
  }
}

async function stop() {
  const old = client;
  client = undefined;
  await old?.stop();
}

// One after the other: a change of settings while the server starts must not leave two running.
let last = Promise.resolve();
function restart() {
  last = last.then(stop).then(start);
  return last;
}

exports.activate = (context) => {
  context.subscriptions.push(
    vscode.commands.registerCommand("graphlint.restart", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("graphlint") && restart()),
  );
  return restart();
};

exports.deactivate = () => stop();
