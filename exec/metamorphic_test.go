package exec

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// metaTokens is the length of the text of TestMetamorphic.
const metaTokens = 900

// TestMetamorphic does the same work under random options: weights that stay, stream or are
// mapped, any page size, KV limit, chunk and thread count, with forks, truncations, new plans,
// saves, restarts and power losses in between, of a model without and one with recurrent state. Every logit must be the one of a model that holds
// everything in memory and reads the text once.
func TestMetamorphic(t *testing.T) {
	_, attends := packOnDisk(t, longFixture(t, "llama3", 4096, 0))
	_, recurs := packOnDisk(t, longFixture(t, "lfm2", 4096, 0))
	wants := [2]map[kv.Format][][]float32{{}, {}}
	restored, losses := 0, 0
	complete := testutil.EachSeed(t, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 60, func(t *testing.T, seed uint64, notes *testutil.Notes) {
		rng := rand.New(rand.NewPCG(seed, 5))
		formats := kv.Formats()
		format := formats[rng.IntN(len(formats))]
		kind := int(seed % 2)
		f, wants := [2]*modelfile.Files{attends, recurs}[kind], wants[kind]
		ids := longPrompt(packSpec(t, f).Vocab, metaTokens, 9)
		if wants[format] == nil {
			wants[format] = allLogits(t, loadPart(t, f, Options{Threads: 2, Chunk: 256, KV: format}), ids)
		}
		m := &metamorph{t: t, rng: rng, f: f, ids: ids, want: wants[format], format: format, disk: vfs.NewMem(), notes: notes}
		for range 3 + rng.IntN(3) {
			m.life()
		}
		restored, losses = restored+m.restored, losses+m.losses
	})
	t.Logf("%d tokens restored, %d power losses", restored, losses)
	if complete {
		require.Positive(t, restored)
		require.Positive(t, losses)
	}
}

// metamorph is one run: a text, the disk that survives restarts, and the model of the current
// life.
type metamorph struct {
	t      *testing.T
	rng    *rand.Rand
	f      *modelfile.Files
	ids    []int32
	want   [][]float32
	format kv.Format
	disk   *vfs.Mem
	notes  *testutil.Notes

	crashed   *vfs.Mem // what a power loss during this life leaves; nil: the power stays on
	lostPower bool     // at the end of an earlier life, which may have left torn segments
	restored  int      // tokens that came from the disk
	losses    int      // of power
	model     *Model
	seq       *Sequence
	stores    Stores
	dir       *segment.Dir
}

// options returns random options for a life.
func (m *metamorph) options() Options {
	o := Options{
		Threads: 1 + m.rng.IntN(3), Chunk: 1 + m.rng.IntN(200), KV: m.format, Budget: tiering.New(0),
		KVPage: kv.BlockTokens << max(0, m.rng.IntN(5)-2), KVRing: int64(1+m.rng.IntN(64)) << 12,
	}
	switch m.rng.IntN(4) {
	case 0:
		o.Plan = partPlan(m.rng, packSpec(m.t, m.f))
	case 1:
		o.Plan, o.PinFile = partPlan(m.rng, packSpec(m.t, m.f)), true
	case 2:
		o.Plan, o.MapFirst = keepAll(m.t, m.f), true
	}
	if m.rng.IntN(3) > 0 {
		o.KVSpill = kv.NewScratch(m.disk, "scratch", o.Budget)
		o.KVHot = 1 + m.rng.Int64N(1<<20)
	}
	return o
}

// life loads a model, continues what the disk holds of the text, and ends.
func (m *metamorph) life() {
	o := m.options()
	m.notes.Note("life: %s, pin %v, map %v, plan %v", o.describe(), o.PinFile, o.MapFirst, o.Plan != nil)
	model, err := Load(context.Background(), m.f, o)
	require.NoError(m.t, err)
	m.model = model
	m.seq, err = model.NewSequence(0)
	require.NoError(m.t, err)
	m.lostPower, m.crashed = m.lostPower || m.crashed != nil, nil
	m.openDir()
	n, err := m.seq.RestorePrefix(context.Background(), m.stores, m.ids)
	m.notes.Note("restored %d: %v", n, err)
	if err != nil && m.lostPower { // segments that were not durable may be torn
		require.ErrorIs(m.t, err, store.ErrFormat)
		err = nil
	}
	require.NoError(m.t, err)
	m.restored += n
	for range 4 + m.rng.IntN(8) {
		m.act()
	}
	m.save()
	m.seq.Close()
	require.NoError(m.t, m.dir.Close())
	model.Close()
	require.NoError(m.t, o.Budget.Check())
	if m.crashed != nil {
		m.losses++
		m.disk = m.crashed
	}
}

// openDir opens the cache directory. A save loses power at a random operation.
func (m *metamorph) openDir() {
	at, disk := m.rng.Int64N(60), m.disk
	keep, seed := []float64{0, 0.5, 1}[m.rng.IntN(3)], m.rng.Uint64()
	losesPower := m.rng.IntN(2) == 0
	dir, err := segment.OpenDir(vfs.NewFaulty(disk, func(op vfs.Op) error {
		if losesPower && op.Index == at {
			m.notes.Note("power loss before %s %s, %v kept", op.Kind, op.Path, keep)
			m.crashed = disk.CrashClone(keep, seed)
		}
		return nil
	}), "cache", 0)
	require.NoError(m.t, err)
	m.dir = dir
	m.stores, err = m.model.OpenStores(dir, "a model")
	require.NoError(m.t, err)
}

// act does one random thing.
func (m *metamorph) act() {
	switch m.rng.IntN(8) {
	case 0:
		m.notes.Note("truncated to %d", m.seq.Truncate(m.rng.IntN(m.seq.Len()+1)))
	case 1:
		f, err := m.seq.Fork()
		require.NoError(m.t, err)
		m.seq, f = f, m.seq
		f.Truncate(m.rng.IntN(f.Len() + 1))
		f.Close()
		m.notes.Note("forked")
	case 2:
		m.save()
	case 3:
		if m.model.residency != nil {
			require.NoError(m.t, m.model.Replan(context.Background(), partPlan(m.rng, m.model.Spec)))
			m.notes.Note("new plan")
		}
	case 4:
		m.model.TrimCache()
	default:
		m.extend()
	}
}

func (m *metamorph) save() {
	if m.rng.IntN(2) == 0 {
		require.NoError(m.t, m.seq.SaveBehind(m.stores, m.seq.IDs(), 1))
		m.notes.Note("saves %d tokens behind", m.seq.Len())
		return
	}
	refs, err := m.seq.Save(m.stores, m.seq.IDs(), 1, m.rng.IntN(2) == 0)
	require.NoError(m.t, err)
	m.notes.Note("saved %d segments of %d tokens", len(refs), m.seq.Len())
}

// extend reads some tokens and compares their logits.
func (m *metamorph) extend() {
	at := m.seq.Len()
	n := min(len(m.ids)-at, 1+m.rng.IntN(8<<m.rng.IntN(6)))
	if n == 0 {
		return
	}
	m.notes.Note("tokens %d to %d", at, at+n)
	for i, got := range extendAll(m.t, m.model, m.seq, m.ids[at:at+n]) {
		require.Equal(m.t, m.want[at+i], got, "position %d", at+i)
	}
}
