package exec

import (
	"context"
	"testing"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// benchModel loads the bundled model.
func benchModel(b *testing.B) *Model {
	b.Helper()
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir(testutil.Root(b)))
	if err != nil {
		b.Fatal(err)
	}
	m, err := Load(context.Background(), f, Options{KV: kv.K8V8})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close(); f.Close() })
	return m
}

// BenchmarkDecode decodes token by token after a context of 256 tokens.
func BenchmarkDecode(b *testing.B) { benchExtend(b, 256, 1) }

// BenchmarkPrefill prefills chunks of 256 tokens.
func BenchmarkPrefill(b *testing.B) { benchExtend(b, 0, 256) }

func benchExtend(b *testing.B, depth, n int) {
	m := benchModel(b)
	s, err := m.NewSequence(0)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ids := longPrompt(m.Spec.Vocab, depth+n, 1)
	read := func(part []int32) {
		r := &ExtendOptions{Each: func(int, []float32) error { return nil }}
		if err := m.Extend(context.Background(), s, part, r); err != nil {
			b.Fatal(err)
		}
	}
	if depth > 0 {
		read(ids[:depth])
	}
	b.ResetTimer()
	for range b.N {
		read(ids[depth:])
		s.Truncate(depth)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "tok/s")
}
