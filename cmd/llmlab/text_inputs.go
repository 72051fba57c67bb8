package main

import (
	"io/fs"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
)

// textInputs reads the text of -f, and returns the model of -m or, without it, the bundled one.
func textInputs(s *cli.Streams, file, model string) (text, path string, fsys fs.FS, err error) {
	if file == "" {
		return "", "", nil, cli.Usagef("-f is missing: give the text")
	}
	if text, err = cli.ReadText(s, "-f", file); err != nil {
		return "", "", nil, err
	}
	path, fsys, err = findModel(model)
	return text, path, fsys, err
}

// findModel returns the model of -m or, without it, the bundled one.
func findModel(model string) (path string, fsys fs.FS, err error) {
	if model == "" {
		return bundled.Name, bundled.FS, nil
	}
	return model, nil, cli.CheckExists("-m", model)
}
