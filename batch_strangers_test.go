package llmrun_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestStrangersInOnePass generates with sessions that have nothing in common but the model, at the same time: with different adapters, held to
// languages, with candidates and beams, forks of forks, saved and opened again, cancelled and closed; with guesses, and
// while the budget changes. Pieces, tokens, probabilities, reasons of ends and statistics of texts are those of each session alone, in an engine without
// guesses and without a limit, which reads the whole text at once where pages are not selected.
func TestStrangersInOnePass(t *testing.T) {
	skipLongTexts(t)
	models, all := map[int]*strangerModel{}, strangerTally{}
	complete := testutil.EachSeed(t, []uint64{0, 2, 4, 12, 16, 17}, 300, func(sub *testing.T, seed uint64, notes *testutil.Notes) {
		kind := int(seed % uint64(len(strangerKinds)))
		if models[kind] == nil {
			models[kind] = newStrangerModel(t, &strangerKinds[kind])
		}
		r := &strangerRun{t: sub, rng: rand.New(rand.NewPCG(seed, 11)), model: models[kind], notes: notes}
		r.run()
		all.add(&r.tally)
	})
	t.Logf("%+v", all)
	if complete {
		for name, n := range map[string]int{
			"turns": all.Turns, "guesses": all.Guessed, "constraints": all.Held, "candidates": all.Several, "forks": all.Forked, "adapters": all.Adapted,
			"pages on flash": all.Cold, "streamed weights": all.Streamed, "sessions left": all.Left, "saved sessions": all.Reopened,
		} {
			require.Positive(t, n, name)
		}
		require.Greater(t, all.Turns, all.Refused, "most turns have memory")
		require.Greater(t, all.Tokens, all.Passes, "sessions shared passes")
	}
}

// strangerTally counts what the seeds covered.
type strangerTally struct {
	Turns, Guessed, Held, Several, Forked, Adapted, Cold, Streamed, Left, Refused, Reopened, Tokens, Passes int
}

func (a *strangerTally) add(b *strangerTally) {
	a.Turns, a.Guessed, a.Held, a.Several, a.Forked = a.Turns+b.Turns, a.Guessed+b.Guessed, a.Held+b.Held, a.Several+b.Several, a.Forked+b.Forked
	a.Adapted, a.Cold, a.Streamed, a.Left = a.Adapted+b.Adapted, a.Cold+b.Cold, a.Streamed+b.Streamed, a.Left+b.Left
	a.Refused, a.Reopened, a.Tokens, a.Passes = a.Refused+b.Refused, a.Reopened+b.Reopened, a.Tokens+b.Tokens, a.Passes+b.Passes
}

// strangerRun is one seed of TestStrangersInOnePass.
type strangerRun struct {
	t        *testing.T
	rng      *rand.Rand
	model    *strangerModel
	options  llmrun.Options
	names    []string // of adapters that sessions choose
	vocab    int
	document []int32
	all      []*stranger
	notes    *testutil.Notes

	mu    sync.Mutex // guards tally
	tally strangerTally
}

// stranger is the life of a session.
type stranger struct {
	index    int
	from     *stranger // it forks that one behind its first turns; nil: it begins alone
	at       int
	turns    []strangerTurn
	want     []strangerSaid
	got      []strangerSaid
	children []*stranger
}

// strangerSaid is what a turn gave.
type strangerSaid struct {
	pieces  []llmrun.Piece
	several []llmrun.Candidate
	stop    llmrun.StopReason
	stats   llmrun.Stats // without times and transfers
	tokens  []int32      // of the session
	err     error
}

func (r *strangerRun) run() {
	t, rng := r.t, r.rng
	r.options = r.engineOptions()
	o := r.options
	base := []string{"", "pack", "pack", "q8", "q8", "q4"}[rng.IntN(6)]
	if r.model.whole && len(o.Adapters) > 0 {
		base = ""
	}
	quiet := o
	quiet.Drafts, quiet.Memory.RAM, quiet.Memory.KVRAM = llmrun.DraftOptions{Drafter: llmrun.DraftOff}, llmrun.NoLimit, 0
	quiet.Cache, quiet.Threads, quiet.Memory.Chunk = llmrun.CacheOptions{}, 1, 0
	alone := open(t, r.model.path(t, base), quiet)
	r.vocab = alone.Info().Vocab
	r.document = r.prompt(1 + rng.IntN(120))
	if r.model.long {
		r.document = r.prompt(1300 + rng.IntN(400))
	}
	for range 2 + rng.IntN(9) {
		r.all = append(r.all, r.newStranger())
	}
	for _, x := range r.all {
		r.tellAlone(alone, x)
	}
	require.NoError(t, alone.Close())

	path := r.drafts(&o, base)
	if base != "" && rng.IntN(4) > 0 {
		o.Memory.RAM = minimum(t, path, o) + rng.Int64N(1<<(17+rng.IntN(5)))
		r.options.Memory.RAM = o.Memory.RAM
	}
	r.notes.Note("weights %q, %d threads, chunk %d, budget %d, of keys and values %d in %s, selection %q, guesses %+v, adapters %q (beside %v), %q of sessions, cached prefixes: %v",
		base, o.Threads, o.Memory.Chunk, o.Memory.RAM, o.Memory.KVRAM, o.Memory.KV, o.Memory.KVSelect, o.Drafts, o.Adapters, o.AdaptersBeside, o.SessionAdapters, !o.Cache.NoKV)
	e := open(t, path, o)
	r.together(e)
	for _, x := range r.all {
		r.compare(x)
	}
	use := e.PassUse()
	r.tally.Tokens, r.tally.Passes = int(use.Tokens), int(use.Passes)
	if plan := e.Memory().Plan; !plan.Resident() {
		r.tally.Streamed++
	}
}
