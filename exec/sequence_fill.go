package exec

import (
	"context"
	"math/rand/v2"
)

// What follows is for measuring how fast a long context is. What it holds is not
// asked for, only how long it is.

// Fill extends a sequence to n tokens without reading any: their keys and values
// are made up, a few over and over, and take as long to attend to as others. A text read behind them means nothing. Layers of short convolutions, and
// summaries for selection, know nothing of them.
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
		for l, layer := range m.Spec.Layers {
			for pos := from; pos < to && layer.KVHeads > 0; pos++ {
				s.kv.Put(l, pos, made[pos%len(made)], made[(pos+l+1)%len(made)])
			}
		}
		s.ids = append(s.ids, make([]int32, to-from)...)
		s.kv.Commit(to)
	}
	return nil
}

// madeUpVectors returns some vectors that are as long as any layer's keys of a token.
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

// ReadKVLate makes keys and values on flash be asked for only when a layer looks
// at them, or again before that, from the next pass on. It shows what asking
// before is worth. Where one stream brings them and weights it changes nothing.
func (m *Model) ReadKVLate(late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kvReader.ReadLate(late)
}
