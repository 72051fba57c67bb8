package exec

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// secondAccelerator is an accelerator that computes the last layers with another copy of the
// model in this package.
type secondAccelerator struct {
	whole         *Model
	first         int
	context       int
	offer         *Offer
	x             []float32
	failed        error
	ignoresCancel bool  // ignores cancelled contexts
	layers        []int // layers that it received
	head          *Linear
	reads         int
}

func (p *secondAccelerator) Open(o *Offer) (Network, error) {
	p.offer = o
	return p, nil
}

func (p *secondAccelerator) Placement() Placement {
	return Placement{Device: "second", First: p.first, Layers: len(p.whole.Spec.Layers), Context: p.context}
}

func (p *secondAccelerator) UploadLayer(l int, _ *LayerWeights) error {
	p.layers = append(p.layers, l)
	return nil
}

func (p *secondAccelerator) UploadOutput(_ []float32, head Linear) error {
	p.head = &head
	return nil
}

func (p *secondAccelerator) NewSequence() (SequenceMemory, error) {
	s, err := p.whole.NewSequence(0)
	return secondSequence{s}, err
}

func (p *secondAccelerator) Input(tokens int) []float32 {
	p.x = make([]float32, tokens*p.whole.Spec.Dim)
	return p.x
}

func (p *secondAccelerator) Read(ctx context.Context, text SequenceMemory, c *Chunk) error {
	p.reads++
	if p.failed != nil {
		return p.failed
	}
	if p.ignoresCancel {
		ctx = context.WithoutCancel(ctx)
	}
	s, m := text.(secondSequence).Sequence, p.whole
	s.kv.Truncate(c.Position)
	s.ids, s.longRope = s.ids[:min(c.Position, len(s.ids))], c.Long
	b := &Batch{}
	s.piece.begin(&ExtendOptions{Each: func(pos int, logits []float32) error { return c.Each(pos-c.Position, logits) }}, c.Position, c.Position+c.Tokens-1)
	b.add(s, make([]int32, c.Tokens), false)
	b.want = c.Want
	if err := b.runs[0].grow(ctx); err != nil {
		return err
	}
	if err := m.kvReader.Begin(b); err != nil {
		return err
	}
	m.pass.begin(ctx, b)
	copy(m.pass.x, p.x)
	for l := p.first; l < len(m.Spec.Layers) && !m.pass.failed(); l++ {
		m.pass.runLayer(l)
	}
	if m.pass.failed() {
		return m.pass.err
	}
	if err := m.pass.output(); err != nil {
		return err
	}
	b.commit()
	return nil
}

func (p *secondAccelerator) Close() error { return nil }

type secondSequence struct{ *Sequence }

func (s secondSequence) Clone() (SequenceMemory, error) {
	f, err := s.Fork()
	return secondSequence{f}, err
}

func (s secondSequence) Close() error {
	s.Sequence.Close()
	return nil
}

// loadCut loads a model whose layers from first on are computed by a second accelerator.
func loadCut(t *testing.T, fsys vfs.FS, path string, first int, o Options) (*Model, *secondAccelerator) {
	t.Helper()
	whole := loadModel(t, fsys, path, o)
	spec := *whole.Spec
	spec.LogitScale, spec.FinalSoftcap = 1, 0 // the host's model applies these
	whole.Spec = &spec
	p := &secondAccelerator{whole: whole, first: first, context: spec.Context}
	o.Accelerator = p
	return loadModel(t, fsys, path, o), p
}

// TestOffloadedLastLayers computes texts with any number of last layers on another accelerator, in
// chunks and token by token, for all logits and for the last ones. The logits equal those of a
// model in one place. Weights are floats, or codes of a pack.
func TestOffloadedLastLayers(t *testing.T) {
	for _, name := range []string{"llama32", "gemma3", "qwen2_moe"} {
		t.Run(name, func(t *testing.T) { requireCuts(t, vfs.OS(), smallFixture(t, name)) })
	}
	t.Run("pack", func(t *testing.T) {
		shape, ok := synth.FindShape("tiny")
		require.True(t, ok)
		files := vfs.NewMem()
		require.NoError(t, synth.Write(t.Context(), files, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
		requireCuts(t, modeltest.ImportModel(t, files, "m.gguf"), "m.pack")
	})
}

func smallFixture(t *testing.T, name string) string {
	return testutil.Shared(t, "fixtures", name)
}

func requireCuts(t *testing.T, fsys vfs.FS, path string) {
	o := Options{Threads: 1, Chunk: 16, KV: kv.K8V8}
	plain := loadModel(t, fsys, path, o)
	ids := longPrompt(plain.Spec.Vocab, 40, 8)
	want := allLogits(t, plain, ids)
	layers := len(plain.Spec.Layers)
	for first := range layers {
		m, p := loadCut(t, fsys, path, first, o)
		require.Equal(t, want, allLogits(t, m, ids), "from layer %d on", first)
		require.Equal(t, plain.KVBytesPerToken(), m.KVBytesPerToken())
		require.Len(t, p.layers, layers-first)
		require.Equal(t, first, p.layers[0])
		require.NotEmpty(t, p.head.Data)
		require.Nil(t, p.offer.Head.Data)

		s, err := m.NewSequence(0)
		require.NoError(t, err)
		requireLast(t, m, s, ids[:37], want)
		require.Equal(t, first > 0, m.KVStats().HotPages > 0, "the accelerator has the KV of its layers")
		f, err := s.Fork()
		require.NoError(t, err)
		for at := 37; at < 40; at++ {
			requireLast(t, m, s, ids[at:at+1], want)
		}
		requireLast(t, m, f, ids[37:], want)
		if s.Truncate(20) == 20 {
			requireLast(t, m, s, ids[20:30], want)
		}
		f.Close()
		s.Close()
	}
}

// requireLast reads tokens and compares the logits of the last.
func requireLast(t *testing.T, m *Model, s *Sequence, ids []int32, want [][]float32) {
	t.Helper()
	require.NoError(t, m.Extend(t.Context(), s, ids, &ExtendOptions{Each: func(pos int, logits []float32) error {
		require.Equal(t, want[pos], logits, "position %d", pos)
		return nil
	}}))
}

// TestOffloadedLayersOfABatch computes two sequences in one pass.
func TestOffloadedLayersOfABatch(t *testing.T) {
	m, p := loadCut(t, vfs.OS(), smallFixture(t, "llama32"), 1, Options{Threads: 1, Chunk: 32})
	texts := [][]int32{{5, 6, 7, 8, 9}, {40, 3, 2, 11}}
	var b Batch
	var got [][]float32
	options := &ExtendOptions{Each: func(_ int, logits []float32) error {
		got = append(got, append([]float32(nil), logits...))
		return nil
	}}
	for _, ids := range texts {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer s.Close()
		addRun(t, &b, s, ids, options)
	}
	require.NoError(t, m.forward(t.Context(), &b))
	require.Equal(t, 2, p.reads)
	for i, ids := range texts {
		require.Equal(t, allLogits(t, m, ids)[len(ids)-1], got[i])
	}
}

// TestOffloadFailureLeavesNoTrace fails the accelerator after the first layers. Some of these are
// short convolutions, whose state must not change.
func TestOffloadFailureLeavesNoTrace(t *testing.T) {
	o := Options{Threads: 1, Chunk: 16}
	plain := loadModel(t, vfs.OS(), smallFixture(t, "lfm2"), o)
	m, p := loadCut(t, vfs.OS(), smallFixture(t, "lfm2"), 2, o)
	ids := longPrompt(m.Spec.Vocab, 20, 8)
	want := allLogits(t, plain, ids)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	requireLast(t, m, s, ids[:10], want)
	p.failed = errors.New("no power")
	require.ErrorIs(t, m.Extend(t.Context(), s, ids[10:], &ExtendOptions{}), p.failed)
	require.Equal(t, 10, s.Len())
	p.failed = nil
	requireLast(t, m, s, ids[10:], want)
}

// TestCancelBeforeOffload cancels a pass before it reaches an accelerator that computes whole
// passes and ignores contexts.
func TestCancelBeforeOffload(t *testing.T) {
	m, p := loadCut(t, vfs.OS(), smallFixture(t, "llama32"), 0, Options{Threads: 1, Chunk: 16})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, m.Extend(ctx, s, []int32{5, 6, 7}, &ExtendOptions{}))
	cancel()
	p.ignoresCancel = true
	require.ErrorIs(t, m.Extend(ctx, s, []int32{8}, &ExtendOptions{}), context.Canceled)
	require.Equal(t, 1, p.reads)
	require.Equal(t, 3, s.Len())
}

// TestPlacement checks the bytes that stay on the host, and that the context is limited to the
// accelerator's.
func TestPlacement(t *testing.T) {
	dir := smallFixture(t, "llama32")
	m, p := loadCut(t, vfs.OS(), dir, 1, Options{Threads: 1, Chunk: 16})
	held := m.Budget().Usage().By[tiering.Pinned]
	require.InDelta(t, held, m.Placement().HostBytes, float64(held)/10, "up to the padding of pages and tiles")
	require.Less(t, m.Placement().HostBytes, p.whole.Budget().Usage().By[tiering.Pinned])
	require.Equal(t, m.Spec.Context, m.Context())
	require.Nil(t, p.whole.Placement())

	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	small := tiering.New(m.Placement().HostBytes - 1)
	_, err = Load(t.Context(), f, Options{Accelerator: p, Budget: small})
	require.ErrorIs(t, err, tiering.ErrBudget)
	require.ErrorContains(t, err, "1 layers and the embedding")
	require.Zero(t, small.Usage().Peak[tiering.Pinned], "no weights were read")
	require.NoError(t, small.Check())

	p.context = 100
	place, err := PlaceLayers(f, Options{Accelerator: p, Context: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, m.Placement().HostBytes, place.HostBytes)
	require.Equal(t, m.Spec.Context, p.offer.Context)
	short, err := Load(t.Context(), f, Options{Accelerator: p})
	require.NoError(t, err)
	defer short.Close()
	s, err := short.NewSequence(200)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, 100, s.Limit())
	require.ErrorIs(t, short.Extend(t.Context(), s, make([]int32, 101), &ExtendOptions{}), ErrContextFull)
}
