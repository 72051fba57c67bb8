package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
)

// modelPlaces returns the directories in which models are found by name.
func modelPlaces() hub.Places {
	home, _ := os.UserHomeDir() // without one, variables of the environment can still name directories
	return hub.DefaultPlaces(os.Getenv, home)
}

// findModel returns the path of the model that flag names: the path of a file or directory, or the name of a model
// that was pulled or that another program has stored.
func findModel(flag, name string) (string, error) {
	missing := cli.CheckExists(flag, name)
	if missing == nil || !errors.Is(missing, os.ErrNotExist) || isPath(name) {
		return name, missing
	}
	m, err := modelPlaces().Find(name)
	switch {
	case err == nil:
		return m.Path, nil
	case !errors.Is(err, hub.ErrNoModel):
		return "", fmt.Errorf("%s: %w", flag, err)
	case hub.IsReference(name):
		return "", fmt.Errorf("%s: %s is not on this machine: llmrun pull %s downloads it, and llmrun plan %s plans its memory before", flag, name, name, name)
	}
	return "", fmt.Errorf("%w, and no model here has that name; %s", missing, suggestModel(name))
}

// namedModel is findModel for a place where another error reports what does not exist.
func namedModel(name string) string {
	if path, err := findModel("", name); err == nil {
		return path
	}
	return name
}

// isPath reports whether a text can only be the path of a file.
func isPath(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~") || strings.Contains(name, `\`) || strings.HasPrefix(name, "/")
}

// namesModel reports whether an argument that is no flag is meant as a model.
func namesModel(text string) bool {
	if isPath(text) || hub.IsReference(text) || fileLike.MatchString(text) || strings.Contains(text, "/") {
		return true
	}
	_, err := findModel("", text)
	return err == nil
}

var (
	ollamaLike = regexp.MustCompile(`^[a-z][a-z0-9._-]*(:[A-Za-z0-9._-]+)?$`)
	hubLike    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9._-]+)?$`)
	fileLike   = regexp.MustCompile(`(?i)\.(gguf|pack|safetensors|bin)$`)
)

// suggestModel says how to get a model that is not here.
func suggestModel(name string) string {
	if models, err := modelPlaces().Models(); err == nil {
		var names []string
		for _, m := range models {
			names = append(names, m.Name)
		}
		if near := cli.Nearest(name, names); near != "" {
			return fmt.Sprintf("did you mean %q?", near)
		}
	}
	switch {
	case fileLike.MatchString(name):
		return "llmrun models lists those that are here"
	case ollamaLike.MatchString(name):
		return fmt.Sprintf("llmrun pull ollama:%s downloads it, if ollama's registry has it, and llmrun models lists those that are here", name)
	case hubLike.MatchString(name):
		return fmt.Sprintf("llmrun pull hf:%s downloads it, if huggingface.co has it, and llmrun models lists those that are here", name)
	}
	return "llmrun models lists those that are here"
}

func modelsCommand() *cli.Command {
	return &cli.Command{
		Name:     "models",
		Synopsis: "[list | rm NAME...] [--json]",
		Summary:  "list the models on this machine, or delete pulled ones",
		About: `Lists the models that llmrun pull has downloaded, and those that ollama, LM Studio and the Hugging Face cache hold; -m of every command takes their names. They are opened where they are, and never copied or changed. rm deletes models that were pulled, also unfinished ones.

Models are pulled to llmrun/models in the user's data directory (XDG_DATA_HOME), or to LLMRUN_MODELS. OLLAMA_MODELS, HF_HOME and HF_HUB_CACHE say where the other programs' models are, if not where they usually are.

--json prints a list of objects with name, path, bytes and source (llmrun, ollama, lmstudio or huggingface), and for pulled models from, which pull takes; and {"freed":…} for rm.`,
		Examples: []cli.Example{
			{Line: "llmrun models", Purpose: "list them"},
			{Line: "llmrun models --json", Purpose: "for a script"},
			{Line: "llmrun models rm llama-3.2-1b-instruct-q4_k_m", Purpose: "delete one that was pulled"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			m := &modelsFlags{}
			f.Group("Output")
			f.Toggle(&m.json, "json", "print one JSON object, or a list of them")
			return m.run
		},
	}
}

// modelsFlags are the flags of models.
type modelsFlags struct{ json bool }

func (m *modelsFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	switch {
	case len(args) == 0, args[0] == "list" && len(args) == 1:
		return m.list(s)
	case args[0] == "list":
		return cli.Usagef("unexpected argument %q", args[1])
	case args[0] == "rm" && len(args) == 1:
		return cli.Usagef("rm needs the name of a model, as llmrun models lists it")
	case args[0] == "rm":
		return m.remove(s, args[1:])
	}
	return cli.Usagef("there is no action %q: give list or rm", args[0])
}

// list prints one line for each model.
func (m *modelsFlags) list(s *cli.Streams) error {
	places := modelPlaces()
	models, err := places.Models()
	if err != nil {
		s.Note(err.Error())
	}
	if m.json {
		return s.Out.WriteJSON(notNull(models))
	}
	for _, model := range models {
		from := model.Source
		if model.From != "" {
			from = model.From
		}
		fmt.Fprintf(s.Out, "%10s  %s  (%s)\n%12s%s\n", cli.FormatBytes(model.Bytes), cli.VisibleLine(model.Name), cli.VisibleLine(from), "", cli.VisibleLine(model.Path))
	}
	_, unfinished, _ := places.Store().Models() // the error is the one above
	for _, u := range unfinished {
		fmt.Fprintf(s.Out, "%10s  %s  unfinished, of %s; llmrun pull %s continues\n", cli.FormatBytes(u.Done), cli.VisibleLine(u.Name), cli.FormatBytes(u.Bytes), cli.VisibleLine(u.From))
	}
	if len(models)+len(unfinished) == 0 {
		s.Say("no models are here but the bundled one: llmrun pull downloads others")
	}
	return nil
}

// remove deletes models that were pulled, and continues after one that fails.
func (m *modelsFlags) remove(s *cli.Streams, names []string) (err error) {
	places := modelPlaces()
	all := int64(0)
	for _, name := range names {
		n, failed := places.Store().Remove(name)
		all += n
		switch {
		case errors.Is(failed, hub.ErrNoModel):
			if other, found := places.Find(name); found == nil && other.Source != hub.SourcePulled {
				failed = fmt.Errorf("%s is a model of %s, which llmrun does not delete: %s", name, other.Source, other.Path)
			} else {
				failed = fmt.Errorf("%w; llmrun models lists them", failed)
			}
			err = errors.Join(err, failed)
		case failed != nil:
			err = errors.Join(err, failed)
		case !m.json:
			fmt.Fprintf(s.Out, "%s deleted, %s freed\n", cli.VisibleLine(name), cli.FormatBytes(n))
		}
	}
	if m.json && err == nil {
		return s.Out.WriteJSON(freed{all})
	}
	return err
}
