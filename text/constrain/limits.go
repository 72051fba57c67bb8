package constrain

import (
	"errors"
	"fmt"
)

// Schemas and grammars come from requests. These limits bound the time and the memory of any of them, far above the
// needs of real ones.
const (
	// maxSource is the greatest length of a source in bytes.
	maxSource = 1 << 20
	// maxNesting bounds the recursion over the nesting of a source.
	maxNesting = 100
	// maxExpressions bounds the expressions of a grammar, and maxStates those with the derivatives that are kept.
	// An expression takes about stateBytes.
	maxExpressions = 1 << 16
	maxStates      = 3 << 16
	// keptStates is how many derivatives are kept of a text that is compared with a grammar. It bounds their memory.
	keptStates = 1 << 14
	// maxChoice bounds the ways that an ambiguous language leaves open.
	maxChoice = 1 << 12
	// compileSteps and maskSteps bound the steps of a compilation and of a mask. A step takes about 100 ns.
	compileSteps = 20_000_000
	maskSteps    = 20_000_000
	// maxSearch bounds the states that a search for the shortest text of an intersection visits.
	maxSearch = 50_000
	// maxShortest bounds the length in bytes of the shortest text of a language.
	maxShortest = 1 << 20
	// maxOptional bounds the properties of an object that may be left out: behind each of them all others may follow.
	maxOptional = 512
	// maxBound is the greatest number of repetitions.
	maxBound = 1 << 30
	// maxValues bounds the values of a schema. Each takes up to about valueBytes besides its text.
	maxValues = 1 << 17
)

const (
	// valueBytes bounds the memory of a value of JSON while a schema is read: the value, its name, and its places in lists and maps that
	// double.
	valueBytes = 256
	// freeBytes is how much a compilation takes before it reserves anything, and compileStep how much it reserves at a time.
	freeBytes   = 1 << 20
	compileStep = 1 << 20
)

// A Compiler compiles languages.
type Compiler struct {
	// Reserve, if set, is called before a compilation takes more memory, beyond the first MiB. Its errors end the
	// compilation.
	Reserve func(bytes int64) error
}

// meter counts the memory of a compilation. A nil meter counts nothing.
type meter struct {
	reserve func(bytes int64) error
	free    int64 // bytes that are reserved and not taken
}

func (k Compiler) meter() *meter {
	if k.Reserve == nil {
		return nil
	}
	return &meter{k.Reserve, freeBytes}
}

// take takes memory.
func (m *meter) take(bytes int64) error {
	if m == nil {
		return nil
	}
	if more := bytes - m.free; more > 0 {
		more = (more + compileStep - 1) / compileStep * compileStep
		if err := m.reserve(more); err != nil {
			return err
		}
		m.free += more
	}
	m.free -= bytes
	return nil
}

// put gives back memory that take took, for what the compilation takes next.
func (m *meter) put(bytes int64) {
	if m != nil {
		m.free += bytes
	}
}

var (
	// ErrLanguage reports a schema, an expression or a grammar that is malformed or not supported, or that no text
	// satisfies.
	ErrLanguage = errors.New("the constraint is not usable")
	// ErrComplex reports a language that needs too many states or steps.
	ErrComplex = errors.New("the constraint is too complex")
	// ErrVocabulary reports a language that the tokens of a vocabulary cannot spell.
	ErrVocabulary = errors.New("the tokens of the model cannot spell what the constraint asks for")
)

// checkSource refuses a source that is too long.
func checkSource(what, text string) error {
	if len(text) > maxSource {
		return fmt.Errorf("%w: %s has %d bytes; at most %d are allowed", ErrComplex, what, len(text), maxSource)
	}
	return nil
}
