package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/llmrun/llmrun/internal/cli"
)

const (
	settingPrefix = "LLMRUN_" // of the variables of settings
	configName    = "config"
)

// programSettings says where llmrun finds its settings.
func programSettings() *cli.Settings {
	return &cli.Settings{Prefix: settingPrefix, Command: configName, Lookup: os.Getenv, File: settingsFile}
}

// settingsFile returns the path of the file of settings, which must be there only if the user has named it.
func settingsFile() (path string, required bool, err error) {
	if named := os.Getenv(settingPrefix + "CONFIG"); named != "" {
		return named, true, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false, err
	}
	return filepath.Join(dir, "llmrun", "config.toml"), false, nil
}

func configCommand() *cli.Command {
	return &cli.Command{
		Name:     configName,
		Synopsis: "[--path | --json]",
		Summary:  "show the settings: flags that are set every day",
		About: `Shows each setting, its value, and where that comes from: a file, or a variable of the environment. A setting has the name and the values of a flag, and counts as that flag: for every command that has it, except for bench. A flag on the command line overrides the environment, which overrides the file.

The file is llmrun/config.toml in the user's directory of settings (XDG_CONFIG_HOME, or .config in the home directory; Library/Application Support on macOS, %AppData% on Windows), or the one that LLMRUN_CONFIG names; LLMRUN_CONFIG=/dev/null reads none. It has lines such as

  model = "qwen2.5-1.5b-instruct-q4_k_m"   # a name in llmrun models, or a path
  ram = "1.5GiB"
  threads = 4
  no-history = true

  [serve]
  ram = "6GiB"

Lines below [COMMAND] are for that command alone. Text stands in quotes; ~/ begins a path in the home directory. The variable of the setting cache-dir is LLMRUN_CACHE_DIR; one that is empty is not set. A setting that a flag of the same command line excludes is passed over, and so are think where the model has no such switch, and a ctx beyond the model's own. model does not apply to embed, rank, index and search, which need models of other kinds; serve offers it under its name if there is no --model. Programs that use the library have no settings.

--json prints one object: file, exists, and settings, a list of name, command (whose lines of the file it is about; empty for all others), value (null for the default), from (file, environment or default), where (the file and the line, or the variable), default in words, variable, and commands that have it.`,
		Examples: []cli.Example{
			{Line: "llmrun config", Purpose: "every setting, and where it comes from"},
			{Line: `${EDITOR:-vi} "$(llmrun config --path)"`, Purpose: "write the file"},
			{Line: "LLMRUN_RAM=2GiB llmrun config --json", Purpose: "for a script, with a variable"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &configFlags{}
			f.Group("Output")
			f.Toggle(&c.path, "path", "print the path of the file alone, also if it is not there")
			f.Toggle(&c.json, "json", "print one JSON object")
			return c.run
		},
	}
}

// configFlags are the flags of config.
type configFlags struct{ path, json bool }

func (c *configFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	program := llmrunProgram()
	if c.path {
		path, err := program.SettingsFile()
		if err != nil {
			return fmt.Errorf("no directory for settings: %w; name the file with %sCONFIG", err, settingPrefix)
		}
		_, err = fmt.Fprintln(cli.Visible(s.Out), path)
		return err
	}
	report, err := program.ShowSettings()
	if err != nil {
		return err
	}
	return cli.Present(s, c.json, report, func(w io.Writer) { report.Write(w, s.Out.Columns()) })
}
