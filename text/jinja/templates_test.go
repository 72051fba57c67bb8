package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
