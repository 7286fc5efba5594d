// Drives real VS Code (code-server in Chromium) with the packed extension, and takes screenshots to look at.
// tests/editors/vscode.sh installs what it needs and runs it. Environment: CODE_SERVER (its entry.js), NODE_MODULES (with
// playwright-core), CHROMIUM, VSIX, GRAPHLINT (the command), PROJECT (a folder that it may edit), SHOTS (a folder).
import { spawn, execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";

const { CODE_SERVER, NODE_MODULES, CHROMIUM = "/usr/bin/chromium", VSIX, GRAPHLINT, PROJECT, SHOTS } = process.env;
const { chromium } = createRequire(NODE_MODULES + "/")("playwright-core");
const port = 18080 + Math.floor(Math.random() * 500);
const data = fs.mkdtempSync("/tmp/graphlint-vscode-");
fs.mkdirSync(SHOTS, { recursive: true });
const settings = {
  "workbench.startupEditor": "none",
  "files.autoSave": "off",
  "telemetry.telemetryLevel": "off",
  "workbench.colorTheme": "Default Light Modern",
  "chat.disableAIFeatures": true,
  "editor.autoClosingBrackets": "never",
  "security.workspace.trust.startupPrompt": "always",
};
// To code-server a command that is started is a setting of the machine, not of the user who looks at it.
for (const [scope, values] of Object.entries({ User: settings, Machine: { "graphlint.command": [GRAPHLINT, "lsp"] } })) {
  fs.mkdirSync(`${data}/${scope}`, { recursive: true });
  fs.writeFileSync(`${data}/${scope}/settings.json`, JSON.stringify(values));
}
const cells = ["import torch\n\nx = torch.ones(8, device='cuda')", "g = torch.cuda.CUDAGraph()\nx.sum()\nwith torch.cuda.graph(g):\n    x.sum().item()"];
const code = (source) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source });
const kernel = { language_info: { name: "python" } };
fs.writeFileSync(PROJECT + "/cells.ipynb", JSON.stringify({ cells: cells.map(code), metadata: kernel, nbformat: 4, nbformat_minor: 5 }));
const env = { ...process.env, HOME: data };
const common = ["--user-data-dir", data, "--extensions-dir", data + "/ext"];
console.log(execFileSync(process.execPath, [CODE_SERVER, ...common, "--install-extension", VSIX], { encoding: "utf-8", env }));
const version = execFileSync(process.execPath, [CODE_SERVER, "--version"], { encoding: "utf-8", env }).trim();
const server = spawn(
  process.execPath,
  [CODE_SERVER, ...common, "--auth", "none", "--bind-addr", "127.0.0.1:" + port, "--disable-telemetry", "--disable-update-check", PROJECT],
  { env, stdio: ["ignore", "pipe", "pipe"], detached: true },
);
let said = "";
server.stdout.on("data", (text) => (said += text));
server.stderr.on("data", (text) => (said += text));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const started = Date.now();
const say = (text) => console.log(((Date.now() - started) / 1000).toFixed(1) + "s", text);
let fails = 0;
const ok = (condition, text) => {
  say((condition ? "PASS " : "FAIL ") + text);
  if (!condition) fails++;
};
for (let i = 0; i < 300 && !said.includes("HTTP server listening"); i++) await sleep(200);
say(version);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1400, height: 850 } });
page.setDefaultTimeout(90000);
const shot = (name) => page.screenshot({ path: `${SHOTS}/${name}.png` });
const problems = async () => (await page.locator(".markers-panel").innerText()).replace(/\s+/g, " ");
async function until(condition, text, seconds = 30) {
  for (let i = 0; i < seconds * 4; i++) {
    if (await condition().catch(() => false)) return ok(true, text);
    await sleep(250);
  }
  ok(false, text);
}
try {
  await page.goto(`http://127.0.0.1:${port}/?folder=${PROJECT}`);
  await page.waitForSelector(".monaco-workbench");
  const trust = page.locator(".monaco-dialog-box >> text=/Yes, I trust/i").first();
  await trust.waitFor();
  await shot("1-trust");
  ok(true, "the workspace is not trusted before the user says so");
  await trust.click();
  const files = '[aria-label*="Files Explorer"]';
  await page.waitForSelector(`${files} >> text=single.py`);
  await page.dblclick(`${files} >> text=single.py`);
  await page.waitForSelector(".monaco-editor .view-line");
  await page.waitForSelector(".squiggly-error");
  ok(true, "squiggle");
  await page.keyboard.press("Control+Shift+M");
  await until(async () => /single\.py.*GL001\[host-sync\]/.test(await problems()), "Problems panel");
  await until(async () => /scaling\.py/.test(await problems()), "a file that is not open is there, too");
  const text = await problems();
  say(text.slice(0, 300));
  ok((text.match(/reads a CUDA tensor/g) || []).length === 2, "each finding once");
  await until(async () => /Ln 7, Col 26/.test(await problems()), "line and column");
  await shot("2-problems");
  await page.hover('.monaco-editor .view-line:has-text("x.sum()") >> text=x.sum', { position: { x: 12, y: 8 } });
  await until(async () => /captured here/.test(await page.locator(".monaco-hover").first().innerText()), "hover with the page");
  await shot("3-hover");
  await page.keyboard.press("Escape");
  await page.click('.monaco-editor .view-line:has-text("x.sum()") >> text=x.sum', { position: { x: 12, y: 8 } });
  await page.keyboard.press("Control+.");
  const ignore = page.locator('.action-widget >> text=/ignore host-sync/').first();
  await ignore.waitFor();
  await shot("4-quick-fix");
  await ignore.click();
  await until(
    async () => /graphlint:.ignore\[host-sync\]/.test(await page.locator(".monaco-editor .view-lines").first().innerText()),
    "the quick fix is in the unsaved buffer",
  );
  await until(async () => (await page.locator(".squiggly-error").count()) === 0, "no squiggle any more");
  await until(async () => !/single\.py/.test(await problems()), "gone from Problems");
  await shot("5-fixed");
  // The other way round: the capture in runner.py is edited away, the finding in scaling.py follows, nothing is saved.
  await page.dblclick(`${files} >> text=runner.py`);
  await page.click('.monaco-editor .view-line:has-text("torch.cuda.graph(graph)")');
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("if True:");
  await until(async () => !/scaling\.py/.test(await problems()), "a finding in a closed file follows the edit of another");
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("with torch.cuda.graph(graph):");
  await until(async () => /scaling\.py/.test(await problems()), "and comes back");
  await shot("6-other-file");
  ok(!fs.readFileSync(PROJECT + "/single.py", "utf-8").includes("ignore["), "nothing was saved");
  // A notebook: the capture in one cell runs on what another one made.
  await page.dblclick(`${files} >> text=cells.ipynb`);
  await page.waitForSelector(".notebookOverlay .cell.code .view-line");
  await until(async () => (await page.locator(".notebookOverlay .squiggly-error").count()) === 1, "a squiggle in a notebook's cell");
  await until(async () => /cells\.ipynb/.test(await problems()), "and in Problems");
  await shot("7-notebook");
} catch (error) {
  ok(false, String(error).slice(0, 600));
  await shot("failed");
  console.log(said.slice(-2000));
}
await browser.close();
process.kill(-server.pid);
fs.rmSync(data, { recursive: true, force: true });
console.log(fails ? "FAILS " + fails : "ALL PASS");
process.exit(fails ? 1 : 0);
