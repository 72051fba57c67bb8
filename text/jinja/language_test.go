package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// recordedTime is the time of the recorded renderings.
var recordedTime = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// TestTemplatesEqualJinja2 renders the templates of published models and compares the output and the
// error messages with those of Jinja2.
func TestTemplatesEqualJinja2(t *testing.T) {
	var cases []struct {
		Template            string          `json:"template"`
		Case                string          `json:"case"`
		Messages            json.RawMessage `json:"messages"`
		AddGenerationPrompt bool            `json:"add_generation_prompt"`
		BOS                 string          `json:"bos_token"`
		EOS                 string          `json:"eos_token"`
		Rendered            *string         `json:"rendered"`
		Error               string          `json:"error"`
	}
	data, err := os.ReadFile(filepath.Join("testdata", "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &cases))
	require.Len(t, cases, 45)
	for _, c := range cases {
		t.Run(c.Template+"/"+c.Case, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", c.Template))
			require.NoError(t, err)
			parsed, err := Parse(string(source))
			require.NoError(t, err)
			messages, err := DecodeMessages(c.Messages)
			require.NoError(t, err)
			got, err := parsed.Render(Input{
				Messages:            messages,
				AddGenerationPrompt: c.AddGenerationPrompt,
				BOS:                 c.BOS,
				EOS:                 c.EOS,
				Now:                 recordedTime,
			})
			if c.Rendered == nil {
				require.ErrorIs(t, err, ErrRaised)
				require.EqualError(t, err, c.Error)
				return
			}
			require.NoError(t, err)
			require.Equal(t, *c.Rendered, got)
		})
	}
}

// TestFormatNonFinite formats infinities and NaN with every kind of directive. As in
// Python the literal 1e999 is infinity.
func TestFormatNonFinite(t *testing.T) {
	for source, want := range map[string]string{
		`{{ '{:.2}'.format(1e999) }}`:             "inf",
		`{{ '{:,.2}'.format(-1e999) }}`:           "-inf",
		`{{ '{:.2}'.format(1e999 - 1e999) }}`:     "nan",
		`{{ '{:g}|{:f}'.format(1e999, -1e999) }}`: "inf|-inf",
		`{{ '{:6.1}|'.format(1e999) }}`:           "   inf|",
	} {
		tmpl, err := Parse(source)
		require.NoError(t, err, source)
		got, err := tmpl.Render(Input{})
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}
