package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/bench"
)

const (
	// recallMargin is the part of a context that questions and answers need, in tokens.
	recallMargin = 256
	// recallTail are the last tokens of a document, which a selection always attends to: no notes
	// are there. recallReach is how far back notes are from there: the bundled model was trained
	// on notes of up to 10K tokens, and finds none that are further away.
	recallTail, recallReach = 1024, 7168
)

// recallDocument is a text with facts. Its beginnings are the documents of shorter contexts, so
// that a model prefills all of them once.
type recallDocument struct {
	ids []int32
	// parts says, for each context in ascending order, how long its document is.
	parts []recallPart
}

// recallPart is the document of one context: the first tokens of the whole one. It is asked for
// all passkeys in it, and for the notes at its end.
type recallPart struct {
	context, tokens int
	facts           []fact
}

// recallOpening begins each document.
const recallOpening = "<|im_start|>user\nRead the text and remember the important facts.\n"

// documentMaker makes one document.
type documentMaker struct {
	encode   func(string) []int32
	random   *rand.Rand
	made     *factMaker
	lines    []string // of the text
	line     int      // next one
	passkeys []fact   // so far
	document recallDocument
}

// newRecallDocument returns document number n for the contexts, which are ascending, with facts
// between the lines of a text: about each context, so many questions are new.
func newRecallDocument(encode func(string) []int32, text string, n int, contexts []int, page, questions int) (*recallDocument, error) {
	random := rand.New(rand.NewPCG(18, 6+uint64(n)))
	m := documentMaker{encode: encode, random: random, made: newFactMaker(random), lines: strings.SplitAfter(text, "\n")}
	m.line = random.IntN(len(m.lines))
	m.document.ids = encode(recallOpening)
	actions := questions / questionsPerAction
	passkeys := questions - 2*actions
	if passkeys*len(contexts) > mostPasskeys() || actions*len(contexts) > mostActions() {
		return nil, fmt.Errorf("%w: %d questions about each of %d contexts are too many: there are no more different facts", bench.ErrBench, questions, len(contexts))
	}
	for _, context := range contexts {
		part := recallPart{context: context, tokens: (context - recallMargin) / page * page}
		if !m.add(&part, passkeys, actions) {
			return nil, fmt.Errorf("%w: a context of %d tokens has no room for %d facts", bench.ErrBench, context, passkeys+actions)
		}
		m.document.parts = append(m.document.parts, part)
	}
	return &m.document, nil
}

// questionsPerAction is the number of questions of which two are about one action item.
const questionsPerAction = 6

// statement is a fact's line at a place of a part.
type statement struct {
	before int // token of the part
	ids    []int32
}

// add extends the document to a part with new facts. It reports whether there is room for them.
func (m *documentMaker) add(part *recallPart, passkeys, actions int) bool {
	room := part.tokens - len(m.document.ids)
	tail := min(recallTail, room/4)
	reach := min(recallReach, room-tail)
	var statements []statement
	for range passkeys {
		m.passkeys = append(m.passkeys, m.made.passkey())
		statements = append(statements, statement{m.random.IntN(max(1, room)), m.encode(m.passkeys[len(m.passkeys)-1].statement + "\n")})
	}
	part.facts = slices.Clone(m.passkeys)
	for range actions {
		when, due := m.made.action()
		part.facts = append(part.facts, when, due)
		statements = append(statements, statement{room - tail - m.random.IntN(max(1, reach)), m.encode(when.statement + "\n")})
	}
	for i := range statements {
		room -= len(statements[i].ids)
	}
	if room <= 0 {
		return false
	}
	slices.SortStableFunc(statements, func(a, b statement) int { return a.before - b.before })
	m.fill(part.tokens, statements)
	return true
}

// fill extends the document to a length, with lines of the text and statements at their places.
func (m *documentMaker) fill(tokens int, statements []statement) {
	d, left, begun := &m.document, 0, len(m.document.ids)
	for i := range statements {
		left += len(statements[i].ids)
	}
	for len(d.ids)+left < tokens {
		for len(statements) > 0 && statements[0].before <= len(d.ids)-begun {
			d.ids, left = append(d.ids, statements[0].ids...), left-len(statements[0].ids)
			statements = statements[1:]
		}
		line := m.encode(m.lines[m.line%len(m.lines)])
		d.ids = append(d.ids, line[:min(len(line), tokens-left-len(d.ids))]...)
		m.line++
	}
	for i := range statements {
		d.ids = append(d.ids, statements[i].ids...)
	}
}
