package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

// What a script finds in the output is named in the help.
func TestHelpNamesWhatJSONHolds(t *testing.T) {
	for _, c := range []struct {
		command string
		prints  any
	}{
		{"run", runReport{}},
		{"sessions", llmrun.KeptSession{}},
		{"sessions", verified{}},
		{"sessions", freed{}},
		{"cache", llmrun.CachedPack{}},
		{"cache", llmrun.KeptKV{}},
		{"cache", freed{}},
		{"version", version{}},
		{"version", measure.Machine{}},
		{"import", llmrun.Imported{}},
		{"verify", verified{}},
		{"synth", written{}},
		{"synth", shapeList{}},
		{"synth", measure.ShapeInfo{}},
		{"bench hetero", measure.HeteroReport{}},
		{"calibrate", llmrun.Calibration{}},
		{"calibrate", llmrun.CalibrationInput{}},
		{"perplexity", llmrun.ShadowUse{}},
	} {
		about := findCommand(c.command).about
		for _, field := range reflect.VisibleFields(reflect.TypeOf(c.prints)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			require.NotEmpty(t, name, "%s of %T", field.Name, c.prints)
			require.Regexp(t, `\b`+name+`\b`, about, "the help of %s", c.command)
		}
	}
}
