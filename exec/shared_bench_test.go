package exec

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSharedDecode generates answers of several sequences at the same time.
func BenchmarkSharedDecode(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := benchModel(b)
			all := make([]*Sequence, n)
			for i := range all {
				all[i] = newBenchSequence(b, m)
				require.NoError(b, m.Extend(b.Context(), all[i], longPrompt(m.Spec.Vocab, 16, uint64(i)), &ExtendOptions{}))
			}
			benchTogether(b, m, all)
		})
	}
}

// BenchmarkForksDecode generates answers behind one prompt of 16384 tokens at the same time.
func BenchmarkForksDecode(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := benchModel(b)
			all := []*Sequence{newBenchSequence(b, m)}
			require.NoError(b, m.Fill(b.Context(), all[0], 16384))
			for len(all) < n {
				f, err := all[0].Fork()
				require.NoError(b, err)
				b.Cleanup(f.Close)
				all = append(all, f)
			}
			benchTogether(b, m, all)
		})
	}
}

func newBenchSequence(b *testing.B, m *Model) *Sequence {
	s, err := m.NewSequence(0)
	require.NoError(b, err)
	b.Cleanup(s.Close)
	return s
}

// benchTogether extends sequences at the same time, each by b.N tokens.
func benchTogether(b *testing.B, m *Model, all []*Sequence) {
	begun := Passes(m)
	var running sync.WaitGroup
	b.ResetTimer()
	for _, s := range all {
		running.Go(func() {
			o := &ExtendOptions{Each: func(int, []float32) error { return nil }}
			for i := range b.N {
				if err := m.Extend(b.Context(), s, []int32{int32(i % m.Spec.Vocab)}, o); err != nil {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	passes := Passes(m)
	b.ReportMetric(float64(passes.Tokens-begun.Tokens)/float64(passes.Passes-begun.Passes), "tok/pass")
	b.ReportMetric(float64(len(all)*b.N)/b.Elapsed().Seconds(), "tok/s")
}
