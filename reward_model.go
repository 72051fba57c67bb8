package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// rewardModel scores answers. Its memory is a part of the engine's ledger.
type rewardModel struct {
	options RewardOptions
	model   *exec.Model
	head    *modelfile.Head  // nil: the logits of two tokens
	tok     *token.Tokenizer // nil for a model without a tokenizer
	chat    *chatFormat
	marker  int32
	good    int32
	bad     int32
	lease   *tiering.Lease // of the engine's ledger

	mu  sync.Mutex     // held while an answer is scored
	seq *exec.Sequence // nil when it is closed
	// known are the scores at positions of seq that were asked for.
	known map[int]float64
}

// openRewardFiles opens the files of the reward model once, and checks that it has a head.
func (o *Options) openRewardFiles() (*modelfile.Files, error) {
	if o.rewardFiles.files != nil {
		return o.rewardFiles.files, nil
	}
	f, err := o.rewardFiles.open(o, o.Reward.Model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: Reward.Model is %q; it must be the path of a model: %w", ErrOptions, o.Reward.Model, err)
	}
	if err == nil {
		o.rewardFiles.head, err = rewardHead(f)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("reward model: %w", err)
	case o.rewardFiles.head != nil:
		f.Headless()
	case o.Reward.Marker == "":
		err = noHead(f)
	}
	if err != nil {
		return nil, errors.Join(err, o.rewardFiles.close())
	}
	return f, nil
}

// rewardHead reads the head of a reward model; nil if it has none.
func rewardHead(f *modelfile.Files) (*modelfile.Head, error) {
	d, err := f.Description()
	if err != nil || d.Head == nil {
		return nil, err
	}
	if d.Head.At != modelfile.PoolLast {
		return nil, fmt.Errorf("%w: %s scores texts from their first token or all of them; a reward model scores the last one (Engine.Rank scores texts with %s)", ErrOptions, f.Path, f.Path)
	}
	return d.Head, d.Load(make([]float32, d.Floats()))
}

// noHead is the error for a model that scores nothing.
func noHead(f *modelfile.Files) error {
	known := modelfile.KnownHeads()
	if f.Format() == "pack" {
		return fmt.Errorf("%w: Reward.Model: %s is a pack without a head that scores; packs of older programs have none: give the model that it was made from (known heads: %s)", ErrOptions, f.Path, known)
	}
	return fmt.Errorf("%w: Reward.Model: %s has no head that scores (known: %s); for a process reward model that answers with two tokens, name its marker token in Reward.Marker", ErrOptions, f.Path, known)
}

// addReward adds the memory of the reward model to a shape.
func (o *Options) addReward(shape *tiering.Shape) error {
	if o.Reward.Model == "" {
		return nil
	}
	f, err := o.openRewardFiles()
	if err != nil {
		return err
	}
	memory, err := o.besideMemory(f)
	if err != nil {
		return fmt.Errorf("reward model: %w", err)
	}
	shape.Reward = tiering.Line{
		Fixed:    memory.Fixed + templateRoom*memory.PerToken,
		PerToken: memory.PerToken + (memory.PerToken+rewardRoom-1)/rewardRoom,
	}
	return nil
}

// rewardRoom is the part of a context, as its reciprocal, that a conversation may take more in the tokens of a reward
// model, beside those of its chat template.
const rewardRoom = 4

// planReward refuses the tokens of a reward model that openReward refuses; addReward has refused the others.
func (o *Options) planReward() error {
	if o.Reward.Model == "" {
		return nil
	}
	f, err := o.openRewardFiles()
	if err != nil {
		return err
	}
	spec, err := f.Spec()
	if err == nil {
		err = (&rewardModel{options: o.Reward}).openText(f, spec.Vocab)
	}
	if err != nil {
		return fmt.Errorf("reward model: %w", err)
	}
	return nil
}

// rewardHeap returns the Go heap of the reward model, and what building its tokenizer takes meanwhile.
func (o *Options) rewardHeap() (heap, building int64, err error) {
	if o.Reward.Model == "" {
		return 0, 0, nil
	}
	f, err := o.openRewardFiles()
	if err != nil {
		return 0, 0, err
	}
	template, err := f.ChatTemplate()
	if err != nil {
		return 0, 0, err
	}
	if heap, building, err = f.TokenizerMemory(); err != nil {
		return 0, 0, err
	}
	heap += templateHeap(template)
	if head := o.rewardFiles.head; head != nil {
		heap += 4 * int64(head.Floats())
	}
	return heap, building, nil
}

// openReward loads the reward model into the memory that the plan has for it.
func (e *Engine) openReward(ctx context.Context, opts *Options) error {
	if opts.Reward.Model == "" {
		return nil
	}
	f, err := opts.openRewardFiles()
	if err != nil {
		return err
	}
	if err := e.loadReward(ctx, f, opts); err != nil {
		return fmt.Errorf("reward model: %w", err)
	}
	return opts.rewardFiles.close()
}

// loadReward is openReward with open files.
func (e *Engine) loadReward(ctx context.Context, f *modelfile.Files, opts *Options) (err error) {
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	r := &rewardModel{options: opts.Reward, head: opts.rewardFiles.head, known: map[int]float64{}}
	e.rewardModel = r
	if err := r.openText(f, spec.Vocab); err != nil {
		return err
	}
	bytes, context := e.mem.current.By[tiering.Rewards], e.mem.current.Context
	limit := min(context+context/rewardRoom+templateRoom, spec.Context)
	if r.lease, err = e.mem.budget.Reserve(tiering.Rewards, bytes); err != nil {
		return err
	}
	r.model, err = exec.Load(ctx, f, exec.Options{
		Threads: opts.Threads, Chunk: min(besideChunk, tiering.ChunkOf(limit)), Budget: tiering.New(bytes), KV: opts.kvFormat(f), Exact: opts.Exact,
	})
	if err == nil {
		r.seq, err = r.model.NewSequence(limit)
	}
	return err
}

// openText reads the tokenizer, the chat template and the ids of the options' tokens, which must be in the network's
// vocabulary.
func (r *rewardModel) openText(f *modelfile.Files, vocab int) (err error) {
	r.tok, err = f.Tokenizer()
	if errors.Is(err, modelfile.ErrNoTokenizer) && r.options.Marker == "" {
		return nil // it scores ids
	}
	if err != nil {
		return err
	}
	if r.chat, err = newChatFormat(f, r.tok); err != nil || r.options.Marker == "" {
		return err
	}
	for _, t := range []struct {
		name, text, otherwise string
		id                    *int32
	}{
		{"Marker", r.options.Marker, "", &r.marker}, {"Good", r.options.Good, "+", &r.good}, {"Bad", r.options.Bad, "-", &r.bad},
	} {
		if t.text == "" {
			t.text = t.otherwise
		}
		if *t.id, err = r.wordToken(t.text); err != nil {
			return fmt.Errorf("%w: Reward.%s: %q %w in %s; it must be one", ErrOptions, t.name, t.text, err, f.Path)
		}
		if int(*t.id) >= vocab {
			return fmt.Errorf("%w: Reward.%s: %q is the token %d, but %s has logits of %d tokens", ErrOptions, t.name, t.text, *t.id, f.Path, vocab)
		}
	}
	if r.good == r.bad && r.head == nil {
		return fmt.Errorf("%w: Reward.Good and Reward.Bad are the same token of %s", ErrOptions, f.Path)
	}
	return r.checkTemplate(f)
}

// wordToken returns the token of a word behind a space, as the marker is inserted and as a model writes it. Byte-level
// tokenizers have other tokens for words with a space; others write the space as a token of its own.
func (r *rewardModel) wordToken(word string) (id int32, err error) {
	o := token.EncodeOptions{AllowSpecial: true}
	before, err := r.tok.Encode("a", o)
	if err != nil {
		return 0, err
	}
	ids, err := r.tok.Encode("a "+word, o)
	if err != nil {
		return 0, err
	}
	more := ids[min(len(before), len(ids)):]
	if len(more) == 2 { // the space, or what SPM tokenizers write for it
		if text, err := r.tok.Decode(more[:1]); err == nil && strings.TrimSpace(text) == "" {
			more = more[1:]
		}
	}
	if len(more) != 1 {
		return 0, fmt.Errorf("is not a token, but %d", len(more))
	}
	return more[0], nil
}

// checkTemplate refuses a chat template that writes the marker itself: its markers would be taken for those of steps.
func (r *rewardModel) checkTemplate(f *modelfile.Files) error {
	if r.chat.source == "" {
		return nil
	}
	ids, err := r.encode(Prompt{Messages: []Message{{Role: "user", Content: "a"}}}, "a", nil)
	if err == nil && len(r.markers(ids)) > 0 {
		err = fmt.Errorf("%w: Reward.Marker: the chat template of %s writes %q itself", ErrOptions, f.Path, r.options.Marker)
	}
	return err
}

// close frees the reward model's memory.
func (r *rewardModel) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seq != nil {
		r.seq.Close()
		r.seq = nil
	}
	if r.model != nil {
		r.model.Close()
	}
	if r.lease != nil {
		r.lease.Release()
	}
}
