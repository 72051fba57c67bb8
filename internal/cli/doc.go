// Package cli is what the commands llmrun and llmlab share: subcommands, flags, help,
// suggestions for mistyped names, output as text or JSON, progress bars and exit codes.
package cli
