// Package cli is the command line of llmrun and llmlab: subcommands, flags, help, suggestions
// for mistyped names, output as text or JSON, progress bars and exit codes.
package cli
