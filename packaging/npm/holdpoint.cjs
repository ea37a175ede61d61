#!/usr/bin/env node
// Finds the program that was installed for this platform and becomes it, as far as Node can: its terminal, its
// signals and its exit code are the program's. It fetches nothing and changes nothing.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

const platform = `@holdpoint/${process.platform}-${process.arch}`;

let binary;
try {
  binary = require.resolve(`${platform}/bin/holdpoint`);
} catch {
  const known = Object.keys(require("../package.json").optionalDependencies ?? {});
  const lines = known.includes(platform)
    ? [
        `holdpoint: the package ${platform} is missing, which has the program itself.`,
        "It is left out by `npm install --omit=optional` (or --no-optional), and by a node_modules that was copied",
        "from another kind of machine. Install again here: npm install holdpoint --include=optional",
      ]
    : [
        `holdpoint: there is no package for ${process.platform} on ${process.arch}; there is: ${known.join(", ")}.`,
        "It builds with cargo alone: cargo install --locked --path .",
      ];
  console.error(lines.join("\n"));
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });

// Ctrl-C in a terminal reaches the program by itself; a second one would tell it to stop at once.
const isTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  const isSeenThere = isTerminal && (signal === "SIGINT" || signal === "SIGQUIT");
  process.on(signal, () => {
    if (!isSeenThere) child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`holdpoint: cannot start ${binary}: ${error.message}`);
  console.error("Install again: npm install holdpoint --include=optional");
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + os.constants.signals[signal]);
});
