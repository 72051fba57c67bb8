package llmrun_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/failing"
	"github.com/llmrun/llmrun/store/synth"
)

// conversation opens a model twice, with a named session that the second engine continues, and
// returns the tokens of both answers.
type conversation struct {
	model   string
	options llmrun.Options
	prompt  []int32
	budgets []int64 // set after the first answer
	behind  bool    // the session is saved behind
	notices []string
}

// run runs the conversation in a cache directory.
func (c *conversation) run(dir string) (tokens []int32, err error) {
	for i := range 2 {
		answer, err := c.part(dir, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, answer...)
	}
	return tokens, nil
}

// part runs one engine.
func (c *conversation) part(dir string, i int) (answer []int32, err error) {
	o := c.options
	o.Cache.Dir, c.notices = dir, nil
	o.Notify = func(text string) { c.notices = append(c.notices, text) }
	e, err := llmrun.Open(c.model, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(), e.CheckMemory()) }()
	s, err := e.OpenSession("book", llmrun.SessionOptions{SaveBehind: c.behind})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	a := collect(s.GenerateIDs(context.Background(), c.prompt[i*len(c.prompt)/2:(i+1)*len(c.prompt)/2], drawn(4)))
	if a.err != nil {
		return nil, a.err
	}
	for _, ram := range c.budgets {
		if err := e.SetBudget(ram); err != nil {
			return nil, err
		}
	}
	if len(c.budgets) > 0 {
		if _, err := e.Trim(context.Background(), llmrun.TrimCritical); err != nil {
			return nil, err
		}
	}
	if c.behind {
		return a.IDs, nil
	}
	return a.IDs, s.Save("")
}

// small returns the shape of a small model with several layers.
func small(t testing.TB) synth.Shape {
	t.Helper()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Context = 3, 128, 256, 1024, 1024
	return shape
}

// conversations returns conversations with weights and KV in every place.
func conversations(t *testing.T) map[string]*conversation {
	file := writeShape(t, small(t), "q8_0")
	pack := packed(t, file, llmrun.ImportOptions{})
	base := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	cold, limited, mapped := base, base, base
	cold.Memory.KVRAM = 1
	limited.Memory.RAM = minimum(t, pack, base) + 1<<20
	mapped.Memory.Pin = "file"
	prompt := document(400)
	return map[string]*conversation{
		"imported":     {model: file, options: base, prompt: prompt},
		"cold":         {model: pack, options: cold, prompt: prompt},
		"limited":      {model: pack, options: limited, prompt: prompt},
		"mapped":       {model: pack, options: mapped, prompt: prompt},
		"new budgets":  {model: pack, options: base, prompt: prompt, budgets: []int64{1 << 30, limited.Memory.RAM, 1 << 30}},
		"safetensors":  {model: tinyModel(t, nil), options: base, prompt: tinyPrompt(30)},
		"quantized q8": {model: file, options: llmrun.Options{Threads: 2, Context: 512, Quantize: "q8"}, prompt: prompt},
	}
}

// tinyPrompt returns a prompt of n tokens of the tiny model.
func tinyPrompt(n int) []int32 {
	prompt := document(n)
	for i := range prompt {
		prompt[i] %= tinyEOS
	}
	return prompt
}

// TestEveryRefusedRequestOfAnEngine makes request k for memory fail, for every k, from opening a
// model to continuing a saved session in a second engine. The tokens are right, or the error is
// ErrBudget or that the system has no memory; in both cases the engines hold nothing afterwards.
func TestEveryRefusedRequestOfAnEngine(t *testing.T) {
	for name, c := range conversations(t) {
		t.Run(name, func(t *testing.T) {
			want, err := c.run(t.TempDir())
			require.NoError(t, err)
			require.Len(t, want, 8)
			for _, mode := range []failing.Mode{failing.Once, failing.Onward} {
				failed, without := failing.EachRequest(t, mode, testutil.Effort(11, 1), func() error {
					dir, err := os.MkdirTemp(t.TempDir(), "")
					require.NoError(t, err)
					defer func() { require.NoError(t, os.RemoveAll(dir)) }()
					got, err := c.run(dir)
					if err == nil && !slices.Equal(want, got) {
						t.Errorf("tokens %v, want %v", got, want)
					}
					return err
				})
				require.Greater(t, failed, 3)
				t.Logf("%s: %d runs failed, %d did without the memory", mode, failed, without)
			}
		})
	}
}
