package llmrun_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

func TestInvalidOptionsNameField(t *testing.T) {
	for field, o := range map[string]llmrun.Options{
		"Threads is -1":           {Threads: -1},
		"Context is -1":           {Context: -1},
		"Memory.Chunk is 1048576": {Memory: llmrun.MemoryOptions{Chunk: 1 << 20}},
		`Memory.KV is "q2"; it must be one of f32, f16, k8v8`: {Memory: llmrun.MemoryOptions{KV: "q2"}},
	} {
		for _, call := range []func() error{
			func() error { _, err := llmrun.Open(demoModel, o); return err },
			func() error { _, err := llmrun.Inspect(demoModel, o); return err },
			func() error { _, err := llmrun.OpenTokenizer(demoModel, o); return err },
		} {
			err := call()
			require.ErrorIs(t, err, llmrun.ErrOptions)
			require.ErrorContains(t, err, field)
		}
	}
}

func TestInvalidGenerateOptionsNameField(t *testing.T) {
	nan := float32(math.NaN())
	for field, o := range map[string]llmrun.GenerateOptions{
		"MaxTokens":         {MaxTokens: -1},
		"temperature":       {Sampling: llmrun.Sampling{Temperature: nan}},
		"top_k":             {Sampling: llmrun.Sampling{TopK: -5}},
		"top_p":             {Sampling: llmrun.Sampling{TopP: 2}},
		"min_p":             {Sampling: llmrun.Sampling{MinP: -0.1}},
		"typical_p":         {Sampling: llmrun.Sampling{TypicalP: 1.5}},
		"repeat_penalty":    {Sampling: llmrun.Sampling{RepeatPenalty: -1}},
		"presence_penalty":  {Sampling: llmrun.Sampling{PresencePenalty: float32(math.Inf(1))}},
		"frequency_penalty": {Sampling: llmrun.Sampling{FrequencyPenalty: nan}},
		"repeat_last_n":     {Sampling: llmrun.Sampling{RepeatLastN: -2}},
		"logit_bias":        {Sampling: llmrun.Sampling{LogitBias: map[int32]float32{6144: 1}}},
		"stop":              {Stop: []string{""}},
		"stop has":          {Stop: make([]string, 1_000_000)},
	} {
		t.Run(field, func(t *testing.T) {
			s := newSession(t, demo(t))
			err := collect(s.Generate(context.Background(), "x", o)).err
			want := llmrun.ErrSampling
			if field == "MaxTokens" {
				want = llmrun.ErrOptions
			}
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, field)
			require.NotContains(t, err.Error(), "\n")
			require.Zero(t, s.Len(), "nothing was read")
			require.Equal(t, llmrun.StopError, s.Stats().StopReason)
		})
	}
}

func TestEmptyPromptIsRefused(t *testing.T) {
	s := newSession(t, demo(t))
	require.ErrorIs(t, collect(s.Generate(context.Background(), "", limit(1))).err, llmrun.ErrOptions)
	require.ErrorIs(t, collect(s.GenerateIDs(context.Background(), nil, limit(1))).err, llmrun.ErrOptions)
}

// TestModelInFS opens a model in an fs.FS.
func TestModelInFS(t *testing.T) {
	var last llmrun.Progress
	calls := 0
	e := open(t, ".", llmrun.Options{FS: os.DirFS(demoModel), Progress: func(p llmrun.Progress) {
		require.GreaterOrEqual(t, p.Done, last.Done)
		last = p
		calls++
	}})
	require.Equal(t, fox(t, demo(t), 5), fox(t, e, 5))
	require.Equal(t, e.Info().WeightBytes, last.Total)
	require.Equal(t, last.Total, last.Done)
	require.Greater(t, calls, 10)
}

// TestErrorsNameFile opens paths that are missing or are not models.
func TestErrorsNameFile(t *testing.T) {
	write := func(name, text string) string {
		path := t.TempDir() + "/" + name
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, test := range []struct {
		path string
		want error
	}{
		{"no/such/model.gguf", fs.ErrNotExist},
		{write("model.gguf", "GG"), llmrun.ErrFormat},
		{write("model.gguf", strings.Repeat("x", 100)), llmrun.ErrFormat},
		{t.TempDir(), fs.ErrNotExist},                      // it holds no model
		{write("model.safetensors", "{}"), fs.ErrNotExist}, // config.json is missing
	} {
		_, err := llmrun.Open(test.path, llmrun.Options{})
		require.ErrorIs(t, err, test.want, test.path)
		name := test.path
		if errors.Is(test.want, fs.ErrNotExist) && strings.HasSuffix(name, ".safetensors") {
			name = "config.json"
		}
		require.ErrorContains(t, err, name)
		_, again := llmrun.Inspect(test.path, llmrun.Options{})
		require.EqualError(t, again, err.Error())
	}
}

func TestBrokenWeightsAreRefused(t *testing.T) {
	whole, err := os.ReadFile(demoModel + "/model.safetensors")
	require.NoError(t, err)
	cut := overlay(t, demoModel, map[string]string{"model.safetensors": string(whole[:len(whole)-1])})
	_, err = llmrun.Open(".", llmrun.Options{FS: cut})
	require.ErrorIs(t, err, llmrun.ErrFormat)
	require.ErrorContains(t, err, "model.safetensors")

	config, err := os.ReadFile(demoModel + "/config.json")
	require.NoError(t, err)
	heads := overlay(t, demoModel, map[string]string{
		"config.json": strings.Replace(string(config), `"num_key_value_heads": 2`, `"num_key_value_heads": 3`, 1),
	})
	_, err = llmrun.Open(".", llmrun.Options{FS: heads})
	require.ErrorIs(t, err, llmrun.ErrModel)
	require.ErrorContains(t, err, "k_proj", "the tensor that does not fit")

	unknown := overlay(t, demoModel, map[string]string{
		"config.json": strings.Replace(string(config), `"llama"`, `"mystery"`, 1),
	})
	_, err = llmrun.Open(".", llmrun.Options{FS: unknown})
	require.True(t, llmrun.IsUnsupported(err), err)
	require.ErrorContains(t, err, "mystery")
}

func TestDefaultSampling(t *testing.T) {
	require.Equal(t, llmrun.Sampling{Temperature: 0.7, TopP: 0.9, RepeatPenalty: 1.05}, demo(t).DefaultSampling(), "the model's own")
	e := open(t, tinyModel(t, nil), llmrun.Options{})
	require.Equal(t, llmrun.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}, e.DefaultSampling())
}
