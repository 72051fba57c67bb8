package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// besideChunk is the number of tokens of a prefill chunk of a model beside the engine's.
const besideChunk = 128

// besideFiles are the open files of a model beside the engine's, which guesses or scores, for all copies of the
// options. A nil besideFiles has none.
type besideFiles struct {
	files *modelfile.Files
	head  *modelfile.Head // of a reward model
}

// draftPath returns the path of the model that makes the guesses, "" if none does.
func (o *DraftOptions) draftPath() string {
	switch o.Drafter {
	case "", DraftAuto, DraftOff, DraftLookup, DraftNested:
		return ""
	}
	return o.Drafter
}

// openDraft opens the files of the draft model once.
func (o *Options) openDraft() (*modelfile.Files, error) {
	f, err := o.draftFiles.open(o, o.Drafts.draftPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: Drafts.Drafter is %q; it must be %s, %s, %s, %s or the path of a model: %w", ErrOptions, o.Drafts.Drafter, DraftAuto, DraftOff, DraftLookup, DraftNested, err)
	}
	if err != nil {
		return nil, fmt.Errorf("draft model: %w", err)
	}
	return f, nil
}

// open opens the files at a path once.
func (b *besideFiles) open(o *Options, path string) (*modelfile.Files, error) {
	if b.files != nil {
		return b.files, nil
	}
	f, err := modelfile.Open(o.metered(vfs.OS()), path)
	if err == nil {
		b.files = f
	}
	return f, err
}

// close closes the files.
func (b *besideFiles) close() error {
	if b == nil || b.files == nil {
		return nil
	}
	f := b.files
	b.files = nil
	return f.Close()
}

// closeBeside closes the files of the models beside the engine's.
func (o *Options) closeBeside() error {
	return errors.Join(o.draftFiles.close(), o.rewardFiles.close())
}

// besideMemory returns the memory of a model beside the engine's: its weights, which all stay in memory, the
// activations of its chunks, and the keys and values of one sequence.
func (o *Options) besideMemory(f *modelfile.Files) (tiering.Line, error) {
	shape, _, err := exec.MeasureShape(f, exec.ShapeOptions{Threads: o.threads(), KV: o.kvFormat(f), Exact: o.Exact})
	if err != nil {
		return tiering.Line{}, err
	}
	page := max(1, shape.KVPageTokens)
	plan, err := tiering.MakePlan(shape, tiering.Need{Context: page, ContextMax: page, Chunk: besideChunk}, tiering.Rates{})
	if err != nil {
		return tiering.Line{}, err
	}
	return tiering.Line{Fixed: plan.Total(), PerToken: shape.KVBytesPerToken}, nil
}

// addDraftModel adds the memory of the draft model to a shape.
func (o *Options) addDraftModel(shape *tiering.Shape) error {
	f, err := o.openDraft()
	if err != nil {
		return err
	}
	memory, err := o.besideMemory(f)
	if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	shape.Drafts.Fixed += memory.Fixed
	shape.Drafts.PerToken += memory.PerToken
	shape.DraftTokens, shape.DraftsRequired = maxDraftTokens, true
	return nil
}

// maxDraftTokens is more than any context.
const maxDraftTokens = 1 << 30

// draftModel is a model that guesses tokens for another one. Its memory is a part of the engine's ledger.
type draftModel struct {
	model  *exec.Model
	budget *tiering.Budget // of the draft model alone
	lease  *tiering.Lease  // of the engine's ledger
	limit  int             // most tokens of a sequence
}

// openDraftModel loads the draft model into the memory that the plan has for it.
func (e *Engine) openDraftModel(ctx context.Context, opts *Options) (err error) {
	if opts.Drafts.draftPath() == "" {
		return nil
	}
	f, err := opts.openDraft()
	if err != nil {
		return err
	}
	spec, err := f.Spec()
	if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	own := vocabulary{path: e.info.Path, size: e.info.Vocab}
	if e.tok != nil {
		own.t = e.tok.t
	}
	if err := own.check(f); err != nil {
		return err
	}
	// The recurrent states behind guesses, and look-up, are in memory of the sessions.
	bytes := e.mem.current.By[tiering.Drafts] - exec.DraftBytes(e.model.Spec, opts.Drafts.max(), draft.MaxBranches) - draft.LookupBytes(besideTokens)
	if !e.mayDraft || bytes <= 0 {
		return nil
	}
	d := &draftModel{budget: tiering.New(bytes), limit: min(e.limit, spec.Context)}
	if d.lease, err = e.mem.budget.Reserve(tiering.Drafts, bytes); err != nil {
		return err
	}
	e.draftModel = d
	d.model, err = exec.Load(ctx, f, exec.Options{
		Threads: opts.Threads, Chunk: min(besideChunk, tiering.ChunkOf(d.limit)), Budget: d.budget, KV: opts.kvFormat(f), Exact: opts.Exact,
	})
	if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	return opts.draftFiles.close()
}

// vocabulary is that of a model at a path; t is nil for a model without a tokenizer.
type vocabulary struct {
	path string
	size int
	t    *token.Tokenizer
}

// vocabularyOf reads the vocabulary of a model.
func vocabularyOf(f *modelfile.Files) (v vocabulary, err error) {
	spec, err := f.Spec()
	if err != nil {
		return v, err
	}
	v.path, v.size = f.Path, spec.Vocab
	if v.t, err = f.Tokenizer(); errors.Is(err, modelfile.ErrNoTokenizer) {
		v.t, err = nil, nil
	}
	return v, err
}

// planDraftModel refuses the draft models that openDraftModel refuses.
func (o *Options) planDraftModel(f *modelfile.Files) error {
	if o.Drafts.draftPath() == "" {
		return nil
	}
	small, err := o.openDraft()
	if err != nil {
		return err
	}
	own, err := vocabularyOf(f)
	if err != nil {
		return err
	}
	return own.check(small)
}

// check returns an error if a token of the draft model's vocabulary has another text than in v.
func (v *vocabulary) check(f *modelfile.Files) error {
	draft, err := vocabularyOf(f)
	if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	const remedy = "a draft model must have the vocabulary of the model; use a smaller model of the same family"
	if draft.t == nil || v.t == nil {
		if v.size != draft.size {
			return fmt.Errorf("%w: Drafts.Drafter: the vocabulary of %s has %d tokens, that of %s %d; %s", ErrOptions, draft.path, draft.size, v.path, v.size, remedy)
		}
		return nil
	}
	if id, same := firstOtherToken(draft.t, v.t); !same {
		own, _ := v.t.Piece(id)
		other, _ := draft.t.Piece(id)
		return fmt.Errorf("%w: Drafts.Drafter: token %d is %q in %s and %q in %s; %s", ErrOptions, id, other, draft.path, own, v.path, remedy)
	}
	return nil
}

// firstOtherToken returns the first token that two vocabularies do not share.
func firstOtherToken(a, b *token.Tokenizer) (id int32, same bool) {
	for id := range int32(max(a.VocabSize(), b.VocabSize())) {
		x, inA := a.Piece(id)
		if y, inB := b.Piece(id); x != y || inA != inB {
			return id, false
		}
	}
	return 0, true
}

// close frees the draft model's memory.
func (d *draftModel) close() {
	if d == nil {
		return
	}
	if d.model != nil {
		d.model.Close()
	}
	d.lease.Release()
}
