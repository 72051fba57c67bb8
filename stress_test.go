package llmrun_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// stressKinds are the models of TestStress, by the fields of config.json that differ.
var stressKinds = []map[string]any{
	{"model_type": "llama"},
	{"model_type": "mistral", "sliding_window": 70},
	{"model_type": "mixtral", "intermediate_size": 160, "num_local_experts": 4, "num_experts_per_tok": 2},
	{"model_type": "llama", "rope_scaling": map[string]any{
		"type": "longrope", "original_max_position_embeddings": 200,
		"short_factor": slices.Repeat([]float64{1}, stressHead/2), "long_factor": slices.Repeat([]float64{3}, stressHead/2),
	}},
}

// The stress models have weights that take more memory than the ring to stream them, and large keys and values.
const (
	stressDim, stressFFN, stressVocab = 96, 512, 256
	stressLayers, stressHeads         = 2, 4
	stressHead                        = 64
	stressContext                     = 640
)

// stressModel writes a pack of a kind.
func stressModel(t testing.TB, kind map[string]any) string {
	t.Helper()
	return packed(t, stressFiles(t, kind), llmrun.ImportOptions{})
}

// stressFiles writes the directory of a kind.
func stressFiles(t testing.TB, kind map[string]any) string {
	t.Helper()
	config := map[string]any{
		"hidden_size": stressDim, "intermediate_size": stressFFN, "num_hidden_layers": stressLayers, "num_attention_heads": stressHeads,
		"num_key_value_heads": stressHeads, "head_dim": stressHead, "vocab_size": stressVocab, "max_position_embeddings": stressContext,
		"rms_norm_eps": 1e-5, "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": stressVocab - 1,
	}
	maps.Copy(config, kind)
	data, err := json.Marshal(config)
	require.NoError(t, err)
	rng, ffn := rand.New(rand.NewPCG(3, 4)), config["intermediate_size"].(int)
	var tensors []safetensors.TensorData
	add := func(name string, shape ...int) {
		b := randomFloats(rng, shape)
		tensors = append(tensors, safetensors.TensorData{Name: name + ".weight", Type: quant.F32, Shape: shape, Data: b})
	}
	add("model.embed_tokens", stressVocab, stressDim)
	add("model.norm", stressDim)
	for l := range stressLayers {
		layer := fmt.Sprintf("model.layers.%d.", l)
		add(layer+"input_layernorm", stressDim)
		add(layer+"post_attention_layernorm", stressDim)
		for _, x := range []string{"q", "k", "v"} {
			add(layer+"self_attn."+x+"_proj", stressHeads*stressHead, stressDim)
		}
		add(layer+"self_attn.o_proj", stressDim, stressHeads*stressHead)
		if kind["num_local_experts"] == nil {
			add(layer+"mlp.gate_proj", ffn, stressDim)
			add(layer+"mlp.up_proj", ffn, stressDim)
			add(layer+"mlp.down_proj", stressDim, ffn)
			continue
		}
		add(layer+"block_sparse_moe.gate", kind["num_local_experts"].(int), stressDim)
		for x := range kind["num_local_experts"].(int) {
			expert := fmt.Sprintf("%sblock_sparse_moe.experts.%d.", layer, x)
			add(expert+"w1", ffn, stressDim)
			add(expert+"w3", ffn, stressDim)
			add(expert+"w2", stressDim, ffn)
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, "model.safetensors"), tensors))
	return dir
}

// stress is one run of TestStress.
type stress struct {
	t       *testing.T
	rng     *rand.Rand
	path    string
	options llmrun.Options
	least   int64
	engine  *llmrun.Engine
	exact   *llmrun.Engine // without a limit
	open    []*stressed
	closed  map[string]*stressed // saved sessions that are not open
	names   int
	notes   *testutil.Notes
	refused int // budgets
	spilled int // pages, at most
}

// stressed is a session, and what it must hold.
type stressed struct {
	session *llmrun.Session
	ids     []int32
	name    string  // "": it was never saved
	saved   []int32 // tokens of the last save
}

// TestStress does random work with several sessions in small budgets that change: answers, alone and at the same time,
// that are interrupted at any moment, forks, saves, sessions opened again, budgets and trims. Every token must be that of
// an engine without a limit which reads the whole text at once. A generation may fail for want of memory only if a new engine
// with the same budget and sessions fails too. In the end the engine holds nothing.
func TestStress(t *testing.T) {
	skipLongTexts(t)
	packs, exact := map[int]string{}, map[int]*llmrun.Engine{}
	refused, spilled := 0, 0
	complete := testutil.EachSeed(t, []uint64{1, 2, 3, 4}, 200, func(sub *testing.T, seed uint64, notes *testutil.Notes) {
		kind := int(seed % uint64(len(stressKinds)))
		if packs[kind] == "" {
			packs[kind] = stressModel(t, stressKinds[kind])
			exact[kind] = open(t, packs[kind], llmrun.Options{Threads: 2, Context: stressContext, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, KV: "f32"}})
		}
		s := &stress{t: sub, rng: rand.New(rand.NewPCG(seed, 7)), path: packs[kind], exact: exact[kind], closed: map[string]*stressed{}, notes: notes}
		s.run()
		refused, spilled = refused+s.refused, spilled+s.spilled
	})
	t.Logf("%d budgets refused, %d pages on flash", refused, spilled)
	if complete {
		require.Positive(t, refused, "budgets were refused")
		require.Positive(t, spilled, "pages were on flash")
	}
}

// run does the work.
func (s *stress) run() {
	t := s.t
	s.options = llmrun.Options{
		Threads: 1 + s.rng.IntN(2), Context: stressContext, Memory: llmrun.MemoryOptions{Chunk: 16 << s.rng.IntN(3), KV: "f32"},
		Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: s.rng.IntN(2) == 0},
	}
	s.least = minimum(t, s.path, s.options)
	s.engine = open(t, s.path, s.withBudget(s.someBudget()))
	steps := testutil.Effort(40, 60)
	for range steps {
		s.step()
		s.spilled = max(s.spilled, s.engine.KVUse().ColdPages)
	}
	for len(s.open) > 0 {
		s.close(s.open[0])
	}
	require.NoError(t, s.engine.Close())
	require.NoError(t, s.engine.CheckMemory())
	if len(s.closed) == 0 {
		return
	}
	s.notes.Note("another engine")
	s.engine = open(t, s.path, s.withBudget(s.someBudget()))
	for _, name := range slices.Sorted(maps.Keys(s.closed)) {
		s.openSaved(name)
		s.generate(s.open[0], s.prompt(), 3)
		s.close(s.open[0])
	}
}

func (s *stress) withBudget(ram int64) llmrun.Options {
	o := s.options
	o.Memory.RAM = ram
	return o
}

// someBudget returns a budget in which the model opens.
func (s *stress) someBudget() int64 { return s.least + s.rng.Int64N(2<<20) }

// step does one random thing.
func (s *stress) step() {
	const most = 4 // sessions
	if len(s.open) == 0 || len(s.open) < most && s.rng.IntN(6) == 0 {
		session, err := s.engine.NewSession()
		require.NoError(s.t, err)
		s.open = append(s.open, &stressed{session: session})
	}
	x := s.open[s.rng.IntN(len(s.open))]
	switch s.rng.IntN(15) {
	case 0, 1, 2, 3:
		s.generate(x, s.prompt(), 1+s.rng.IntN(6))
	case 4, 5:
		s.interrupt(x)
	case 6, 7:
		s.together()
	case 8:
		if len(s.open) < most {
			s.fork(x)
		}
	case 9:
		s.save(x)
	case 10:
		s.close(x)
		if names := slices.Sorted(maps.Keys(s.closed)); len(names) > 0 {
			s.openSaved(names[s.rng.IntN(len(names))])
		}
	case 11:
		s.notes.Note("reset of %d tokens", len(x.ids))
		require.NoError(s.t, x.session.Reset())
		x.ids = nil
	case 12, 13:
		s.setBudget()
	case 14:
		level := llmrun.TrimLevel(s.rng.IntN(4))
		s.notes.Note("trim %d", level)
		trim(s.t, s.engine, level)
	}
}

// prompt returns random tokens.
func (s *stress) prompt() []int32 {
	ids := make([]int32, 1+s.rng.IntN(1<<(1+s.rng.IntN(8))))
	for i := range ids {
		ids[i] = s.rng.Int32N(stressVocab - 1)
	}
	return ids
}

// fits empties a session that has no room for more tokens.
func (s *stress) fits(x *stressed, more int) {
	if len(x.ids)+more < stressContext-8 {
		return
	}
	require.NoError(s.t, x.session.Reset())
	x.ids = nil
}

func stressOptions(n int) llmrun.GenerateOptions {
	return llmrun.GenerateOptions{MaxTokens: n, IgnoreEOS: true}
}

// want returns what follows a text.
func (s *stress) want(ids []int32, n int) []int32 {
	session, err := s.exact.NewSession()
	require.NoError(s.t, err)
	defer session.Close()
	return complete(s.t, session.GenerateIDs(context.Background(), ids, stressOptions(n))).IDs
}

// generate continues a session.
func (s *stress) generate(x *stressed, prompt []int32, n int) {
	s.fits(x, len(prompt)+n)
	s.notes.Note("session of %d: prompt of %d, answer of %d", len(x.ids), len(prompt), n)
	s.settle(x, prompt, n, collect(x.session.GenerateIDs(context.Background(), prompt, stressOptions(n))))
}

// settle compares the answer to a prompt, which may have ended early, with what was wanted.
func (s *stress) settle(x *stressed, prompt []int32, n int, a answer) {
	t := s.t
	text := slices.Concat(x.ids, prompt)
	if errors.Is(a.err, llmrun.ErrBudget) {
		s.notes.Note("%v", a.err)
		require.False(t, s.possible(x, text, n), "a new engine has the memory: %v", a.err)
	} else if a.err != nil {
		require.ErrorIs(t, a.err, context.Canceled)
	}
	if x.session.Len() == len(x.ids) && len(a.IDs) == 0 && a.err != nil {
		return // the prompt is no part of the session
	}
	require.Equal(t, len(text)+len(a.IDs), x.session.Len())
	if len(a.IDs) > 0 {
		require.Equal(t, s.want(text, len(a.IDs)), a.IDs, "behind %d tokens", len(text))
	}
	x.ids = append(text, a.IDs...)
}

// possible reports whether a new engine with the same budget and sessions continues a session.
func (s *stress) possible(x *stressed, text []int32, n int) bool {
	o := s.withBudget(s.engine.Memory().Budget)
	o.Cache.KVDir = s.t.TempDir()
	e, err := llmrun.Open(s.path, o)
	if err != nil {
		return false
	}
	defer e.Close()
	for _, other := range s.open {
		if other == x || len(other.ids) < 2 {
			continue
		}
		session, err := e.NewSession()
		if err != nil || collect(session.GenerateIDs(context.Background(), other.ids[:len(other.ids)-1], stressOptions(1))).err != nil {
			return false
		}
	}
	session, err := e.NewSession()
	return err == nil && collect(session.GenerateIDs(context.Background(), text, stressOptions(n))).err == nil
}

// interrupt continues a session and leaves at any moment: before the first chunk, while the prompt is read, after some
// tokens, or by leaving the loop.
func (s *stress) interrupt(x *stressed) {
	prompt, n := s.prompt(), 6
	s.fits(x, len(prompt)+n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind, after := s.rng.IntN(4), s.rng.IntN(4)
	s.notes.Note("session of %d: prompt of %d, interrupted (%d, %d)", len(x.ids), len(prompt), kind, after)
	switch kind {
	case 0:
		cancel()
	case 1:
		turns := s.rng.IntN(2000)
		go func() {
			for range turns {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	var a answer
	for p, err := range x.session.GenerateIDs(ctx, prompt, stressOptions(n)) {
		if err != nil {
			a.err = err
			continue
		}
		a.IDs = append(a.IDs, p.ID)
		if kind == 2 && len(a.IDs) > after {
			break
		}
		if kind == 3 && len(a.IDs) > after {
			cancel()
		}
	}
	s.settle(x, prompt, n, a)
}

// together continues all sessions at the same time, and perhaps changes the budget meanwhile.
func (s *stress) together() {
	prompts, answers := make([][]int32, len(s.open)), make([]answer, len(s.open))
	for i, x := range s.open {
		prompts[i] = s.prompt()
		s.fits(x, len(prompts[i])+12)
		s.notes.Note("session of %d: prompt of %d, with others", len(x.ids), len(prompts[i]))
	}
	var running sync.WaitGroup
	for i, x := range s.open {
		running.Go(func() {
			answers[i] = collect(x.session.GenerateIDs(context.Background(), prompts[i], stressOptions(12)))
		})
	}
	for range s.rng.IntN(2) * (1 + s.rng.IntN(6)) {
		ram := s.someBudget()
		err := s.engine.SetBudget(ram)
		s.notes.Note("meanwhile a budget of %d: %v", ram, err)
		if err != nil {
			require.ErrorIs(s.t, err, llmrun.ErrBudget)
		}
	}
	running.Wait()
	for i, x := range s.open {
		// What the others hold at the moment of a refusal is not known, so only the tokens are compared.
		if errors.Is(answers[i].err, llmrun.ErrBudget) {
			answers[i].err = context.Canceled
		}
		s.settle(x, prompts[i], 12, answers[i])
	}
}

func (s *stress) fork(x *stressed) {
	s.notes.Note("fork of %d", len(x.ids))
	session, err := x.session.Fork()
	require.NoError(s.t, err)
	s.open = append(s.open, &stressed{session: session, ids: slices.Clone(x.ids)})
}

func (s *stress) save(x *stressed) {
	if x.name == "" {
		s.names++
		x.name = fmt.Sprintf("s%d", s.names)
	}
	s.notes.Note("save %s of %d", x.name, len(x.ids))
	require.NoError(s.t, x.session.Save(x.name))
	x.saved = slices.Clone(x.ids)
}

func (s *stress) close(x *stressed) {
	s.notes.Note("close %s of %d", x.name, len(x.ids))
	require.NoError(s.t, x.session.Close())
	s.open = slices.DeleteFunc(s.open, func(o *stressed) bool { return o == x })
	if x.name != "" {
		s.closed[x.name] = x
	}
}

func (s *stress) openSaved(name string) {
	x := s.closed[name]
	delete(s.closed, name)
	session, err := s.engine.OpenSession(name, llmrun.SessionOptions{})
	require.NoError(s.t, err)
	s.notes.Note("open %s of %d", name, len(x.saved))
	require.Equal(s.t, len(x.saved), session.Len())
	s.open = slices.Insert(s.open, 0, &stressed{session: session, ids: slices.Clone(x.saved), name: name, saved: x.saved})
}

// setBudget sets a budget that may be too small. A refusal changes nothing, and the smallest budget that it names is enough.
func (s *stress) setBudget() {
	t := s.t
	ram := s.least - 1<<20 + s.rng.Int64N(3<<20)
	before, budget := s.engine.KVUse(), s.engine.Memory().Budget
	err := s.engine.SetBudget(ram)
	s.notes.Note("budget %d: %v", ram, err)
	var small *llmrun.MinimumError
	if !errors.As(err, &small) {
		require.NoError(t, err)
		return
	}
	s.refused++
	require.Equal(t, budget, s.engine.Memory().Budget)
	require.Equal(t, before.HotPages, s.engine.KVUse().HotPages, "a refusal changes nothing")
	require.Greater(t, small.Minimum, ram)
	require.NoError(t, s.engine.SetBudget(small.Minimum), "the minimum of a refusal of %d", ram)
}

// randomFloats returns random numbers of a tensor in float32; those of norms are near one.
func randomFloats(rng *rand.Rand, shape []int) (data []byte) {
	n, mean, deviation := 1, float32(0), float32(0.2)
	for _, d := range shape {
		n *= d
	}
	if len(shape) == 1 {
		mean, deviation = 1, 0.1
	}
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(mean+deviation*float32(rng.NormFloat64())))
	}
	return data
}
