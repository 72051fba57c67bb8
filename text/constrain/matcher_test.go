package constrain

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// bytesVocabulary has a token for each byte and the given texts; the last id ends a generation.
func bytesVocabulary(texts ...string) *Vocabulary {
	var tokens []Token
	for b := range 256 {
		tokens = append(tokens, Token{ID: int32(b), Bytes: []byte{byte(b)}, Byte: true})
	}
	for i, text := range texts {
		tokens = append(tokens, Token{ID: int32(256 + i), Bytes: []byte(text)})
	}
	return NewVocabulary(257+len(texts), tokens, []int32{int32(256 + len(texts))})
}

// begin returns a cursor for a regular expression.
func begin(t *testing.T, v *Vocabulary, expression string) *Cursor {
	t.Helper()
	g, err := Regexp(expression)
	require.NoError(t, err)
	m, err := NewMatcher(g, v, nil)
	require.NoError(t, err)
	c := m.Begin()
	t.Cleanup(c.Close)
	return c
}

func allowed(t *testing.T, c *Cursor, left int) []int32 {
	t.Helper()
	mask, err := c.Mask(left)
	require.NoError(t, err)
	return ids(mask.Bits)
}

// TestMask checks masks by hand: tokens that end within, at and behind what is certain.
func TestMask(t *testing.T) {
	v := bytesVocabulary("ab", "abc", "c", "bc")
	const ab, abc, theC, end = 256, 257, 258, 260
	c := begin(t, v, "ab(c|d)*")
	require.Equal(t, []int32{'a', ab, abc}, allowed(t, c, 0), "abc spells what is certain and more")
	require.Equal(t, []int32{ab, abc}, allowed(t, c, 1))
	require.NoError(t, c.Accept(ab))
	require.Equal(t, []int32{'d', theC, end}, allowed(t, c, 0), "the byte token of c is never used")
	require.Error(t, c.Accept('a'))
	require.NoError(t, c.Accept(theC))
	require.True(t, c.Accepts())

	c = begin(t, v, "abx")
	require.Equal(t, []int32{ab}, allowed(t, c, 0), "the longest token of what is certain")
	forced, err := c.Forced(nil, 10, 0)
	require.NoError(t, err)
	require.Equal(t, []int32{ab, 'x'}, forced)
	require.Equal(t, 2, c.Needs())
	c.Branch()
	require.NoError(t, c.Accept(ab))
	c.Return()
	require.NoError(t, c.Accept('a'))
	require.NoError(t, c.Accept('b'))
	require.NoError(t, c.Accept('x'))
	mask, err := c.Mask(0)
	require.NoError(t, err)
	require.True(t, mask.Done)
	require.NoError(t, c.Accept(end))
}

// TestMissingBytes checks a vocabulary that cannot spell every byte: tokens that lead to a text without an end are
// forbidden, and a language that has no other text is refused.
func TestMissingBytes(t *testing.T) {
	v := NewVocabulary(4, []Token{{ID: 0, Bytes: []byte("ab")}, {ID: 1, Bytes: []byte("a")}, {ID: 2, Bytes: []byte("c")}}, []int32{3})
	c := begin(t, v, "abc|aac|axb")
	require.Equal(t, []int32{0, 1}, allowed(t, c, 0))
	require.NoError(t, c.Accept(1))
	require.Equal(t, []int32{1}, allowed(t, c, 0), "neither b nor x has a token")
	g, err := Regexp("a+x")
	require.NoError(t, err)
	_, err = NewMatcher(g, v, nil)
	require.ErrorIs(t, err, ErrVocabulary)
}

// TestLimitForcesTheEnd checks that an answer ends within its tokens, and that a limit that is too small is ignored.
func TestLimitForcesTheEnd(t *testing.T) {
	v := bytesVocabulary("((", "))", "()")
	c := begin(t, v, `(?:\((?:\((?:\(\))*\))*\))*x`)
	require.Equal(t, 1, c.Needs())
	require.Equal(t, []int32{'x'}, allowed(t, c, 1))
	require.Equal(t, []int32{'x', 258}, allowed(t, c, 2))
	require.NoError(t, c.Accept(256))
	require.Equal(t, 3, c.Needs(), "bounded by the tokens of each part")
	require.Equal(t, []int32{')', 257}, allowed(t, c, 3))
	require.Equal(t, allowed(t, c, 0), allowed(t, c, 1))
}

// TestStatesAreShared checks that a text of bounded length has one mask as long as no token reaches the bound.
func TestStatesAreShared(t *testing.T) {
	c := begin(t, bytesVocabulary("aaaa"), "[ab]{0,5000}")
	for range 100 {
		allowed(t, c, 0)
		require.NoError(t, c.Accept(256))
	}
	require.Len(t, c.m.masks, 1)
}

// TestCompaction checks that an answer goes on when the states are dropped, and what it holds stays bounded.
func TestCompaction(t *testing.T) {
	c := begin(t, bytesVocabulary("aaaa"), "[ab]{0,900000}c")
	reserved := int64(0)
	c.m.reserve = func(n int64) error { reserved += n; return nil }
	before := len(c.m.m.nodes)
	for range 3000 {
		require.NoError(t, c.Accept(256))
	}
	c.m.mu.Lock()
	c.m.compact()
	c.m.mu.Unlock()
	require.Less(t, len(c.m.m.nodes), before+10)
	require.LessOrEqual(t, reserved, int64(maxStates)*stateBytes)
	require.Equal(t, []int32{'a', 'b', 'c', 256}, allowed(t, c, 0))
	require.NoError(t, c.Accept('c'))
	require.True(t, c.Accepts())
}

// TestReserve checks that the error of a reservation ends an operation, and that a later one may succeed.
func TestReserve(t *testing.T) {
	g, err := Regexp("[ab]{0,100000}")
	require.NoError(t, err)
	full := errors.New("full")
	_, err = NewMatcher(g, bytesVocabulary(), func(int64) error { return full })
	require.ErrorIs(t, err, full)
	var refuse error
	m, err := NewMatcher(g, bytesVocabulary(), func(int64) error { return refuse })
	require.NoError(t, err)
	c := m.Begin()
	refuse = full
	for i := 0; err == nil && i < 30_000; i++ { // each has a state of its own
		err = c.Accept('a')
	}
	require.NoError(t, err, "states are dropped")
	refuse = nil
	require.Len(t, allowed(t, c, 0), 3)
}

// TestSteadyStateAllocatesNothing follows an answer whose states are known.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	c := begin(t, bytesVocabulary("ab", "ba"), "[ab]*")
	require.Zero(t, testutil.AllocsPerRun(100, 0, func() {
		if _, err := c.Mask(0); err != nil || c.Accept(256) != nil {
			panic("the mask or the token was refused")
		}
	}))
}

// TestHostileLanguages checks that each costs a bounded number of steps and states: an error, or masks.
func TestHostileLanguages(t *testing.T) {
	for name, expression := range map[string]string{
		"exponential":       strings.Repeat("(a|aa)", 200),
		"nested repetition": "((((a{1000}){1000}){1000}){1000}){1000}",
		"many ways":         "(a|b)*c(a|b){500}",
		"states":            strings.Repeat("[a-c]?", 400),
		"nested":            strings.Repeat("(", 5000) + strings.Repeat(")", 5000),
		"counted":           "((a?){1000}){1000}",
		"long":              strings.Repeat("x", maxSource+1),
	} {
		g, err := Regexp(expression)
		if err != nil {
			require.True(t, errors.Is(err, ErrComplex) || errors.Is(err, ErrLanguage), "%s: %v", name, err)
			continue
		}
		m, err := NewMatcher(g, bytesVocabulary("aa", "ab"), nil)
		if err != nil {
			require.ErrorIs(t, err, ErrComplex, name)
			continue
		}
		c := m.Begin()
		for range 20 {
			mask, err := c.Mask(0)
			if err != nil {
				require.ErrorIs(t, err, ErrComplex, name)
				break
			}
			all := ids(mask.Bits)
			require.NotEmpty(t, all, name)
			if err := c.Accept(all[0]); err != nil {
				require.ErrorIs(t, err, ErrComplex, name)
				break
			}
		}
	}
}

func ids(bits []uint64) (all []int32) {
	for i, word := range bits {
		for b := range 64 {
			if word>>b&1 != 0 {
				all = append(all, int32(64*i+b))
			}
		}
	}
	return all
}

// TestMarksBetweenTexts holds a call to a header with a mark: only the token of the mark spells it, not the tokens of its letters, and a text
// may not have it.
func TestMarksBetweenTexts(t *testing.T) {
	v := bytesVocabulary(Mark("<m>"), "<m>", "get", " ")
	const mark, spelled, get, space = 256, 257, 258, 259
	g, err := Calls([]Call{{Name: "get", Before: "get " + Mark("<m>")}, {Name: "getall", Before: "getall " + Mark("<m>")}})
	require.NoError(t, err)
	m, err := NewMatcher(g, v, nil)
	require.NoError(t, err)
	c := m.Begin()
	defer c.Close()
	require.Equal(t, 5, c.Needs())
	require.NoError(t, c.Accept(get))
	require.Equal(t, []int32{'a', space}, allowed(t, c, 0))
	require.NoError(t, c.Accept(space))
	require.Equal(t, []int32{mark}, allowed(t, c, 0))
	forced, err := c.Forced(nil, 10, 0)
	require.NoError(t, err)
	require.Equal(t, []int32{mark, '{'}, forced)
	require.Error(t, c.Accept(spelled))

	free := begin(t, v, `(.|\n)*`)
	require.Contains(t, allowed(t, free, 0), int32(spelled))
	require.NotContains(t, allowed(t, free, 0), int32(mark))
	require.NotContains(t, allowed(t, free, 0), int32(0xff))
}
