package measure

import (
	"context"
	"slices"

	"github.com/llmrun/llmrun/exec"
)

// recallAsker asks about one context of a document in one format.
type recallAsker struct {
	*recallBench
	ms   *recallModels
	ids  []int32
	part *recallPart
	hot  int64 // limit of the memory for KV that is on flash
	cell *RecallCell

	tokens map[string][][]int32 // [mode][question] answers; nil if not asked
}

// askAll asks in all modes. memory is the sequence of the document in memory.
func (a *recallAsker) askAll(ctx context.Context, memory *exec.Sequence) error {
	a.tokens = map[string][][]int32{}
	for i := range a.part.facts {
		if err := a.question(ctx, recallMemory, i, a.ms.memory, memory); err != nil {
			return err
		}
	}
	if err := a.askSpilled(ctx); err != nil {
		return err
	}
	if err := a.askRestored(ctx, recallRestored, a.ms.exact); err != nil {
		return err
	}
	return a.askRestored(ctx, recallBoth, a.ms.selects)
}

// sampled reports whether a question is one of those that every mode is asked.
func (a *recallAsker) sampled(i int) bool { return i%a.o.Every == 0 }

// askSpilled asks with a sixteenth in memory, with exact attention and with page selection in
// turns.
func (a *recallAsker) askSpilled(ctx context.Context) error {
	exact, err := a.ms.exact.restored(ctx, a.ids, a.hot, true)
	if err != nil {
		return err
	}
	defer exact.Close()
	selects, err := a.ms.selects.restored(ctx, a.ids, a.hot, true)
	if err != nil {
		return err
	}
	defer selects.Close()
	for i := range a.part.facts {
		if a.sampled(i) {
			if err := a.question(ctx, recallSpilled, i, a.ms.exact, exact); err != nil {
				return err
			}
		}
		if err := a.question(ctx, recallSelected, i, a.ms.selects, selects); err != nil {
			return err
		}
	}
	return nil
}

// askRestored asks one of the copies, after the document was restored from flash and stayed there.
func (a *recallAsker) askRestored(ctx context.Context, mode string, m *recallModel) error {
	s, err := m.restored(ctx, a.ids, a.hot, false)
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range a.part.facts {
		if !a.sampled(i) {
			continue
		}
		if err := a.question(ctx, mode, i, m, s); err != nil {
			return err
		}
	}
	return nil
}

// question asks one question, and compares the answer with that of the mode that must give the
// same.
func (a *recallAsker) question(ctx context.Context, mode string, i int, m *recallModel, s *exec.Sequence) error {
	ids, answer, err := a.answer(ctx, m, s, &a.part.facts[i])
	if err != nil {
		return err
	}
	if a.tokens[mode] == nil {
		a.tokens[mode] = make([][]int32, len(a.part.facts))
	}
	a.tokens[mode][i] = ids
	if same := recallSameAs[mode]; same != "" {
		answer.Different = !slices.Equal(a.tokens[same][i], ids)
	}
	answer.Question = i
	a.cell.Answers[mode] = append(a.cell.Answers[mode], answer)
	return nil
}
