// Stage: the real server, real browsers, and what every scene needs of them.
//
// Speaks to the server through pages alone, as a person does. Nothing here sleeps: whatever is waited
// for is waited for by its sight.

import { spawn, execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import path from "node:path";
import assert from "node:assert/strict";

const here = import.meta.dirname;
const clients = process.env.HOLDPOINT_CLIENTS;
const require = createRequire(path.join(clients, "console", "package.json"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const binary = process.env.HOLDPOINT_BINARY;
export const shots = process.env.HOLDPOINT_SHOTS;

/** Time in which a page must show what it should; generous, for a machine that does much else. */
const PATIENCE = 120_000;

/** A server below a folder of its own, at an address that it keeps. */
export class Server {
  constructor() {
    this.root = mkdtempSync(path.join(tmpdir(), "holdpoint-console-"));
    this.data = path.join(this.root, "data");
    this.listen = "127.0.0.1:0";
  }

  /** Makes a key; returns its secret. */
  key(name, role) {
    // An admin of this stage works with what they see, too.
    const roles = role === "admin" ? ["user", "operator", "admin"] : [role];
    const terms = roles.flatMap((one) => ["--role", one]);
    const made = execFileSync(binary, ["keys", "add", name, ...terms, "--data", this.data, "--json"], { env: {} });
    return JSON.parse(made).secret;
  }

  async start() {
    const flows = path.join(here, "flows");
    this.process = spawn(binary, ["serve", "--json", "--listen", this.listen, "--data", this.data, "--workflows", flows], {
      cwd: this.root, env: {}, stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface({ input: this.process.stdout });
    const [line] = await new Promise((resolve, reject) => {
      lines.once("line", (line) => resolve([line]));
      this.process.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    });
    this.listen = JSON.parse(line).listening;
    this.url = `http://${this.listen}`;
    return this;
  }

  /** As a power cut would. */
  async kill() {
    const isGone = this.process.exitCode !== null || this.process.signalCode !== null;
    if (isGone) return;
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await gone;
  }

  async end() {
    await this.kill();
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** Chromium without what only a desk needs, where it is there: the same engine for two thirds of the processor time. */
const SHELL = "/usr/bin/chromium-headless-shell";
const chromiumPath = process.env.HOLDPOINT_CHROMIUM ?? (existsSync(SHELL) ? SHELL : "/usr/bin/chromium");

/** A browser; every page of it is watched for what no page of ours may do. */
export class Browser {
  static async open() {
    const browser = new Browser();
    browser.complaints = [];
    browser.chromium = await chromium.launch({
      executablePath: chromiumPath,
      args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb"],
    });
    return browser;
  }

  /** A person with a browser window of their own. */
  async person(server, options = {}) {
    const context = await this.chromium.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB", timezoneId: "UTC", ...options });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.complaints.push(`script: ${error}`));
    page.on("console", (message) => {
      const text = message.text();
      // A server that is down, and an answer that says no, are part of the play.
      const isExpected = /Failed to load resource|net::ERR_|ERR_INCOMPLETE_CHUNKED/.test(text);
      if (message.type() === "error" && !isExpected) this.complaints.push(`console: ${text}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.host !== server.listen && url.protocol.startsWith("http")) this.complaints.push(`another host: ${url}`);
    });
    page.on("dialog", (dialog) => { this.complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    return page;
  }

  async end() {
    await this.chromium.close();
    assert.deepEqual(this.complaints, []);
  }
}

/** Starts a run from its workflow's page; ends on the run's page. */
export async function startRun(page, server, workflow, fill) {
  await page.goto(`${server.url}/console/workflows/${workflow}`);
  await fill(page);
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/console\/runs\/run_/);
  return page.url().split("/").pop();
}

/** The same, where the input is a text. */
export function say(words) {
  return (page) => page.getByLabel("What is it about?").fill(words);
}

/** What is looked at by light: all of it. In the dark colours alone are others, and so are the rules that are about them. */
const RULES = {
  light: { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], least: 10 },
  dark: { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] }, least: 1 },
};

/** Holds a page to what can be checked of WCAG 2.2 A and AA by a program, light and dark. */
export async function accessible(page, name) {
  if (!await page.evaluate("Boolean(window.axe)")) await page.evaluate(axeSource);
  for (const [colorScheme, { runOnly, least }] of Object.entries(RULES)) {
    await page.emulateMedia({ colorScheme });
    // What passes is counted and not told: a page of a thousand elements has as many answers to each rule.
    const found = await page.evaluate(async (runOnly) => {
      const { passes, violations } = await axe.run(document, { runOnly, resultTypes: ["violations"] });
      return { passes: passes.length, violations };
    }, runOnly);
    assert.ok(found.passes >= least, `the rules were really applied: ${found.passes}`);
    const told = found.violations.map((one) => `${name} (${colorScheme}): ${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
    assert.deepEqual(told, []);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

/** A picture of what is on the screen, for people to look at. */
export async function shoot(page, name, options = {}) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`), animations: "disabled", ...options });
}
