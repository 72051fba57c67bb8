package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// checkAdapters refuses values of --lora that name no adapter.
func checkAdapters(names []string) error {
	for _, name := range names {
		if err := checkAdapter(name); err != nil {
			return err
		}
	}
	return nil
}

func checkAdapter(name string) error {
	const flag = "--lora"
	path, err := llmrun.AdapterPath(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		if at := strings.LastIndexByte(path, ':'); at > 0 {
			if _, other := os.Stat(path[:at]); other == nil {
				return cli.Usagef("%s: %s: the scale behind the colon is not a number", flag, name)
			}
		}
		return cli.CheckExists(flag, path)
	}
	if !info.IsDir() && !strings.EqualFold(filepath.Ext(path), ".gguf") {
		return cli.Usagef("%s: %s is a file; give the directory that holds it and adapter_config.json, or a GGUF file", flag, path)
	}
	if info.IsDir() {
		if err := cli.CheckExists(flag, filepath.Join(path, "adapter_config.json")); err != nil {
			return cli.Usagef("%v; give the directory of an adapter in peft's format, or a GGUF file", err)
		}
	}
	return nil
}
