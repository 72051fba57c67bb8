package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// recallBench asks about documents.
type recallBench struct {
	o         *RecallOptions
	files     *modelfile.Files
	tok       *token.Tokenizer
	ends      []int32
	documents []*recallDocument
	of        string // see RecallCell.Of

	mu    sync.Mutex // guards the fields below
	cells []RecallCell
	done  int64
	total int64
}

// open opens the model's files, makes the documents, and takes what is done.
func (b *recallBench) open() (err error) {
	if b.files, err = modelfile.Open(bench.FSOf(b.o.FS), b.o.Path); err != nil {
		return err
	}
	spec, err := b.files.Spec()
	if err != nil {
		return err
	}
	if b.tok, err = b.files.Tokenizer(); err != nil {
		return err
	}
	if b.ends, err = b.files.EndIDs(b.tok); err != nil {
		return err
	}
	for _, n := range b.o.Contexts {
		if n > spec.Context || n <= recallMargin {
			return fmt.Errorf("%w: a context of %d tokens: it must have more than %d tokens and at most the %d of the model", bench.ErrBench, n, recallMargin, spec.Context)
		}
	}
	if err := b.makeDocuments(); err != nil {
		return err
	}
	b.of = recallOf(b.o)
	for _, c := range b.o.Done {
		if c.Of == b.of {
			b.cells = append(b.cells, c)
		}
	}
	for i, d := range b.documents {
		for _, format := range b.o.Formats {
			if !b.isDone(recallJob{format, i}) {
				b.total += int64(len(d.ids))
			}
		}
	}
	return nil
}

// makeDocuments makes the documents.
func (b *recallBench) makeDocuments() error {
	var failed error
	encode := func(text string) []int32 {
		ids, err := b.encode(text)
		failed = errors.Join(failed, err)
		return ids
	}
	if len(encode(b.o.Text)) == 0 && failed == nil {
		return fmt.Errorf("%w: the text is empty", bench.ErrBench)
	}
	for i := range b.o.Documents {
		d, err := newRecallDocument(encode, b.o.Text, i, b.o.Contexts, kv.BlockTokens, b.o.Questions)
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		b.documents = append(b.documents, d)
	}
	return nil
}

func (b *recallBench) close() error {
	if b.files == nil {
		return nil
	}
	return b.files.Close()
}

// encode returns the ids of a text.
func (b *recallBench) encode(text string) ([]int32, error) {
	return b.tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
}

// progress reports that more tokens of a document were prefilled.
func (b *recallBench) progress(tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += int64(tokens)
	if b.o.Running != nil {
		b.o.Running(b.done, b.total)
	}
}

// recallModels are the copies of a model that answer in one format, and their store.
type recallModels struct {
	memory, exact, selects *recallModel
	dir                    *segment.Dir
}

// recallModel is one copy.
type recallModel struct {
	*exec.Model
	stores exec.Stores
}

// openModels loads the copies for a job.
func (b *recallBench) openModels(ctx context.Context, j recallJob) (ms *recallModels, err error) {
	format, err := kv.ParseFormat(j.format)
	if err != nil {
		return nil, err
	}
	dir := vfs.Join(b.o.Dir, fmt.Sprintf("%s-%d", j.format, j.document))
	ms = &recallModels{}
	defer func() {
		if err != nil {
			err = errors.Join(err, ms.close())
		}
	}()
	if ms.dir, err = segment.OpenDir(vfs.OS(), dir, 0); err != nil {
		return ms, err
	}
	selection, err := exec.ParseSelection(b.o.Select)
	if err != nil {
		return ms, fmt.Errorf("%w: %w", bench.ErrBench, err)
	}
	if ms.memory, err = b.load(ctx, ms.dir, vfs.Join(dir, "spilled"), format, exec.Selection{}); err != nil {
		return ms, err
	}
	if ms.exact, err = b.load(ctx, ms.dir, vfs.Join(dir, "spilled"), format, exec.Selection{}); err != nil {
		return ms, err
	}
	ms.selects, err = b.load(ctx, ms.dir, vfs.Join(dir, "spilled"), format, selection)
	return ms, err
}

func (ms *recallModels) close() (err error) {
	for _, m := range []*recallModel{ms.memory, ms.exact, ms.selects} {
		if m != nil {
			m.Close()
		}
	}
	if ms.dir != nil {
		err = ms.dir.Close()
	}
	return err
}

// load loads one copy, whose keys and values are in memory until its limit is set.
func (b *recallBench) load(ctx context.Context, dir *segment.Dir, scratch string, format kv.Format, selection exec.Selection) (*recallModel, error) {
	budget := tiering.New(0)
	m, err := exec.Load(ctx, b.files, exec.Options{
		Threads: b.o.Threads, Budget: budget, KV: format, Select: selection,
		KVSpill: kv.NewScratch(vfs.OS(), scratch, budget),
	})
	if err != nil {
		return nil, err
	}
	stores, err := m.OpenStores(dir, "recall")
	if err != nil {
		m.Close()
		return nil, err
	}
	return &recallModel{m, stores}, nil
}

// ask asks about all contexts of a document in one format.
func (b *recallBench) ask(ctx context.Context, j recallJob) (err error) {
	ms, err := b.openModels(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ms.close()) }()
	s, err := ms.memory.NewSequence(0)
	if err != nil {
		return err
	}
	defer s.Close()
	d := b.documents[j.document]
	for i := range d.parts {
		part := &d.parts[i]
		ids, at := d.ids[:part.tokens], s.Len()
		read := exec.ExtendOptions{Progress: func(done, _ int) { b.progress(done - at); at = done }}
		if err := ms.memory.Extend(ctx, s, ids[at:], &read); err != nil {
			return err
		}
		if b.has(j, part.context) {
			continue
		}
		if _, err := s.Save(ms.memory.stores, ids, 1, false); err != nil {
			return err
		}
		a := &recallAsker{recallBench: b, ms: ms, ids: ids, part: part, hot: ms.memory.KVBytesPerToken() * int64(len(ids)) / recallHot}
		a.cell = &RecallCell{Of: b.of, KV: j.format, Document: j.document, Context: part.context, Answers: map[string][]RecallAnswer{}}
		for k := range part.facts {
			a.cell.Kinds = append(a.cell.Kinds, part.facts[k].kind)
		}
		if err := a.askAll(ctx, s); err != nil {
			return err
		}
		if err := b.add(*a.cell); err != nil {
			return err
		}
	}
	return nil
}

// restored returns a sequence of a copy with the saved document. At most hot bytes of it are in
// memory: the last pages if spills is set, otherwise none of the saved ones.
func (m *recallModel) restored(ctx context.Context, ids []int32, hot int64, spills bool) (s *exec.Sequence, err error) {
	if s, err = m.NewSequence(0); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if spills {
		err = m.SetHot(0)
	} else {
		err = m.SetHot(hot)
	}
	if err != nil {
		return s, err
	}
	// RestorePrefix leaves at least one token to compute.
	if _, err = s.RestorePrefix(ctx, m.stores, append(slices.Clip(ids), 0)); err != nil {
		return s, err
	}
	if s.Len() != len(ids) {
		return s, fmt.Errorf("%d tokens of %d were restored", s.Len(), len(ids))
	}
	return s, m.SetHot(hot)
}

// recallTokens is the most tokens of an answer.
const recallTokens = 40

// answer asks for a fact and truncates the sequence again. Decoding is greedy.
func (b *recallBench) answer(ctx context.Context, m *recallModel, s *exec.Sequence, f *fact) (ids []int32, a RecallAnswer, err error) {
	held := s.Len()
	defer s.Truncate(held)
	question, err := b.encode(f.question)
	if err != nil {
		return nil, a, err
	}
	best := int32(0)
	each := exec.ExtendOptions{Each: func(_ int, logits []float32) error { best = argmax(logits); return nil }}
	asked := m.KVStats()
	if err := m.Extend(ctx, s, question, &each); err != nil {
		return nil, a, err
	}
	before, begun := m.KVStats(), time.Now()
	a.First = float64(before.Read-asked.Read) / float64(max(1, before.Cold-asked.Cold))
	for len(ids) < recallTokens && !slices.Contains(b.ends, best) {
		if ids = append(ids, best); f.kind == passkeyKind && len(ids) > 8 {
			break // the code is complete
		}
		if err := m.Extend(ctx, s, ids[len(ids)-1:], &each); err != nil {
			return nil, a, err
		}
	}
	after := m.KVStats()
	a.TokenMS = 1e3 * time.Since(begun).Seconds() / float64(max(1, len(ids)))
	a.Read, a.Cold = after.Read-before.Read, after.Cold-before.Cold
	text, err := b.tok.Decode(ids)
	a.Right = f.right(text)
	return ids, a, err
}

// argmax returns the index of the greatest value.
func argmax(values []float32) (best int32) {
	for i, v := range values {
		if v > values[best] {
			best = int32(i)
		}
	}
	return best
}
