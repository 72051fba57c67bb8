package llmrun

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/text/constrain"
	"github.com/llmrun/llmrun/tiering"
)

// ErrConstraint reports a schema, a regular expression or a grammar that cannot be used: it is malformed or not supported, it needs
// too many steps, or the tokens of the model cannot spell what it asks for. The error names the keyword or the place.
var ErrConstraint = errors.New("the answer cannot be constrained")

// source is what an answer is constrained to. The zero value is nothing.
type source struct {
	kind, text string
	calls      *requiredCalls // of kind calls
}

// constraint returns what the options constrain the answer to.
func (o *GenerateOptions) constraint() (s source, err error) {
	for _, given := range []source{{kind: "schema", text: o.Schema}, {kind: "regexp", text: o.Regexp}, {kind: "grammar", text: o.Grammar}} {
		if given.text == "" {
			continue
		}
		if s.kind != "" {
			return s, fmt.Errorf("%w: Schema, Regexp and Grammar exclude each other", ErrOptions)
		}
		s = given
	}
	if s.kind != "" && o.IgnoreEOS {
		return s, fmt.Errorf("%w: IgnoreEOS has no meaning for an answer within a %s, which ends where the %[2]s does", ErrOptions, s.kind)
	}
	return s, nil
}

// compile compiles the source.
func (s *source) compile(k constrain.Compiler) (g *constrain.Grammar, err error) {
	switch s.kind {
	case "schema":
		g, err = k.Schema([]byte(s.text), constrain.SchemaOptions{})
	case "regexp":
		g, err = k.Regexp(s.text)
	case "calls":
		g, err = s.calls.compile(k)
	default:
		g, err = k.GBNF(s.text)
	}
	return g, constraintError(err)
}

// constraintError adds ErrConstraint to an error of package constrain. Errors of the budget stay as they are.
func constraintError(err error) error {
	if err == nil || errors.Is(err, ErrBudget) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrConstraint, err)
}

// checkBytes is the memory that CheckConstraint takes at most.
const checkBytes = 4 << 20

// errUnchecked reports a constraint that takes more than checkBytes.
var errUnchecked = errors.New("the constraint takes more memory than a check may")

// CheckConstraint returns the error with which Schema, Regexp or Grammar would be refused, whatever the model. It
// takes a few MiB at most: one that takes more is left to the engine, which counts its memory.
func (o *GenerateOptions) CheckConstraint() error {
	s, err := o.constraint()
	if err != nil || s.kind == "" {
		return err
	}
	taken := int64(0)
	_, err = s.compile(constrain.Compiler{Reserve: func(bytes int64) error {
		if taken += bytes; taken > checkBytes {
			return errUnchecked
		}
		return nil
	}})
	if errors.Is(err, errUnchecked) {
		return nil
	}
	return err
}

// constraints are those of an engine: the vocabulary, and what the last answers were constrained to.
type constraints struct {
	mu         sync.Mutex
	vocabulary *constrain.Vocabulary
	memory     *constraintMemory // of the vocabulary
	last       []*keptMatcher    // the last used one is last
}

// keptMatchers is how many matchers an engine keeps for further answers with the same source.
const keptMatchers = 4

// keptMatcher is a matcher that answers share.
type keptMatcher struct {
	*constrain.Matcher
	source source
	memory *constraintMemory
	users  int
}

// constraintMemory is Go heap that is reserved for a constraint. What it needs to begin is like that of a prompt: weights are released
// for it. It grows while passes run, so it then takes what is free.
type constraintMemory struct {
	engine   *Engine
	room     promptRoom
	begun    bool
	mu       sync.Mutex
	leases   []*tiering.Lease
	reserved int64
}

func newConstraintMemory(e *Engine) *constraintMemory {
	return &constraintMemory{engine: e, room: promptRoom{engine: e}}
}

// compiler returns a compiler whose memory the budget counts until done is called. What it has compiled is garbage then, or
// has become a matcher, which counts itself.
func (e *Engine) compiler() (k constrain.Compiler, done func()) {
	memory := newConstraintMemory(e)
	return constrain.Compiler{Reserve: memory.reserve}, memory.release
}

func (c *constraintMemory) reserve(more int64) error {
	if !c.begun {
		return c.room.reserveFor("a constraint takes", more)
	}
	lease, err := c.engine.mem.budget.Reserve(tiering.Heap, more)
	if err != nil {
		return fmt.Errorf("a constraint takes %s of memory: %w", tiering.AtLeastText(more), err)
	}
	heapLimits.add(&c.engine.mem, more)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases, c.reserved = append(c.leases, lease), c.reserved+more
	return nil
}

func (c *constraintMemory) release() {
	if c == nil {
		return
	}
	c.room.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lease := range c.leases {
		lease.Release()
	}
	heapLimits.add(&c.engine.mem, -c.reserved)
	c.leases, c.reserved = nil, 0
}

// matcher returns the matcher of a source, which the caller returns to done.
func (e *Engine) matcher(s *source) (*keptMatcher, error) {
	c := &e.constraints
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.last {
		if k.source == *s {
			c.last = append(slices.Delete(c.last, i, i+1), k)
			k.users++
			return k, nil
		}
	}
	k, done := e.compiler()
	defer done()
	g, err := s.compile(k)
	if err == nil {
		err = c.open(e)
	}
	if err != nil {
		return nil, err
	}
	c.trim(keptMatchers - 1)
	kept := &keptMatcher{source: *s, memory: newConstraintMemory(e), users: 1}
	if kept.Matcher, err = constrain.NewMatcher(g, c.vocabulary, kept.memory.reserve); err != nil {
		kept.memory.release()
		return nil, constraintError(err)
	}
	kept.memory.begun = true
	c.last = append(c.last, kept)
	return kept, nil
}

// done ends the use of a matcher.
func (c *constraints) done(k *keptMatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.users--
	c.trim(keptMatchers)
}

// trim forgets those matchers without users that were not used for longest, until at most most are left.
func (c *constraints) trim(most int) {
	for i := 0; i < len(c.last) && len(c.last) > most; {
		if c.last[i].users > 0 {
			i++
			continue
		}
		c.last[i].memory.release()
		c.last = slices.Delete(c.last, i, i+1)
	}
}

// open makes the vocabulary.
func (c *constraints) open(e *Engine) error {
	if c.vocabulary != nil {
		return nil
	}
	t, err := e.tokenizer()
	if err != nil {
		return err
	}
	size, bytes := e.model.Spec.Vocab, int64(0)
	marks := e.chat.channels.HeaderMarks()
	for id := range int32(size) {
		text, _, _ := t.Written(id)
		bytes += int64(len(text) + len(marks[id]))
	}
	memory := newConstraintMemory(e)
	if err := memory.reserve(constrain.VocabularyBytes(size, bytes)); err != nil {
		memory.release()
		return err
	}
	tokens := make([]constrain.Token, 0, size)
	for id := range int32(size) {
		if text, isByte, ok := t.Written(id); ok && !slices.Contains(e.ends, id) {
			tokens = append(tokens, constrain.Token{ID: id, Bytes: text, Byte: isByte})
		}
		if mark := marks[id]; mark != "" {
			tokens = append(tokens, constrain.Token{ID: id, Bytes: []byte(constrain.Mark(mark))})
		}
	}
	c.vocabulary, c.memory = constrain.NewVocabulary(size, tokens, e.ends), memory
	return nil
}

// close forgets everything. No answer is running.
func (c *constraints) close() {
	c.trim(0)
	c.memory.release()
	c.vocabulary, c.memory = nil, nil
}
