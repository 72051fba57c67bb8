package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// languageCases holds small templates and their recorded output of Jinja2.
type languageCases struct {
	Variables map[string]json.RawMessage
	Cases     []struct {
		Variables, Template string
		Rendered, Error     *string
	}
}

func readLanguageCases(tb testing.TB) languageCases {
	data, err := os.ReadFile(filepath.Join("testdata", "language.json"))
	require.NoError(tb, err)
	var cases languageCases
	require.NoError(tb, json.Unmarshal(data, &cases))
	return cases
}

// inputOf returns an input with the variables of a JSON object.
func inputOf(tb testing.TB, variables []byte) Input {
	v, err := DecodeJSON(variables)
	require.NoError(tb, err)
	in := Input{Now: recordedTime, Extra: map[string]any{}}
	for _, name := range v.(*Object).Keys() {
		in.Extra[name], _ = v.(*Object).Get(name)
	}
	return in
}

func renderSource(source string, in Input) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(in)
}

// TestLanguageEqualsJinja2 compares expressions, statements, whitespace control and templates with
// tools with the output of Jinja2. It compares the messages of runtime errors unless
// the case has an empty message. It does not compare the messages of syntax errors,
// which are more detailed than Jinja's.
func TestLanguageEqualsJinja2(t *testing.T) {
	cases := readLanguageCases(t)
	require.Greater(t, len(cases.Cases), 1000)
	inputs := map[string]Input{}
	for name, variables := range cases.Variables {
		inputs[name] = inputOf(t, variables)
	}
	for i, c := range cases.Cases {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			got, err := renderSource(c.Template, inputs[c.Variables])
			if c.Rendered != nil {
				require.NoError(t, err, c.Template)
				require.Equal(t, *c.Rendered, got, c.Template)
				return
			}
			var failure *Error
			require.ErrorAs(t, err, &failure, c.Template)
			if *c.Error != "" && (errors.Is(err, ErrRuntime) || errors.Is(err, ErrRaised)) {
				require.Equal(t, *c.Error, failure.Reason, c.Template)
			}
		})
	}
}
