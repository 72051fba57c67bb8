package exec

import (
	"context"
	"math/rand/v2"
)

// This file serves measurements of long contexts, where only the number of tokens matters.

// Fill extends a sequence to n tokens without computing any: it appends made-up keys and values,
// which take as long to attend to as real ones. Text generated after them is meaningless. It
// does not fill the state of short convolutions or the summaries for selection.
func (m *Model) Fill(ctx context.Context, s *Sequence, n int) error {
	if n > s.limit {
		return ErrContextFull
	}
	m.mustRePrefill(s, n)
	if n <= len(s.ids) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	page := m.cache.PageTokens()
	made := madeUpVectors(m)
	for len(s.ids) < n {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := len(s.ids)
		to := min(n, (from/page+1)*page)
		if err := s.kv.Grow(ctx, to); err != nil {
			return err
		}
		for l, heads := range m.cache.Shape().KVHeads {
			for pos := from; pos < to && heads > 0; pos++ {
				s.kv.Put(l, pos, made[pos%len(made)], made[(pos+l+1)%len(made)])
			}
		}
		s.ids = append(s.ids, make([]int32, to-from)...)
		s.kv.Commit(to)
	}
	return nil
}

// madeUpVectors returns a few random vectors as long as the longest key of any layer.
func madeUpVectors(m *Model) [][]float32 {
	const vectors = 7
	most := 0
	for _, layer := range m.Spec.Layers {
		most = max(most, layer.KVHeads)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	made := make([][]float32, vectors)
	for i := range made {
		made[i] = make([]float32, most*m.Spec.HeadDim)
		for j := range made[i] {
			made[i][j] = float32(rng.NormFloat64())
		}
	}
	return made
}

// WriteKVLate turns writing behind off or on: with late set, a token that needs room writes the
// pages that make room. Measurements use it to show what writing behind gains.
func WriteKVLate(m *Model, late bool) { m.cache.WriteOnDemand(late) }

// ReadKVLate turns the early submission of KV reads off or on, from the next pass on: with late
// set, a layer submits the reads of its pages on flash only when it attends to them.
// Measurements use it to show what prefetch gains. It has no effect on an interleaved weight/KV
// stream.
func (m *Model) ReadKVLate(late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kvReader.ReadOnDemand(late)
}
