package constrain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// largeVocabulary has 128256 tokens, as many as those of Llama 3 and of the kinds that it has: single bytes, words of letters with and without
// a space before them, numbers of up to three digits, marks of JSON, indentation, and characters of other scripts.
func largeVocabulary() *Vocabulary {
	const size = 128_256
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	var tokens []Token
	add := func(text string) {
		if !seen[text] && len(tokens) < size-1 {
			seen[text] = true
			tokens = append(tokens, Token{ID: int32(len(tokens)), Bytes: []byte(text)})
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	for _, text := range strings.Split(`{"|":|": "|": |",|", "|"}|"}}|},|}, |},{"|[{"|"]|"],|"]}|[]|{}|":[|":{"|\n\n|\":\"|\\n|\\\"|true|false|null|https|://|.com|@`, "|") {
		add(text)
	}
	for n := range 90 {
		add(strings.Repeat(" ", n))
		add("\n" + strings.Repeat(" ", n))
		add(strings.Repeat("\t", n+1))
	}
	for digits := 1; digits <= 3; digits++ {
		for n := range 1000 {
			add(fmt.Sprintf("%0*d", digits, n))
		}
	}
	syllables := strings.Fields("a e i o u an en in on un ar er or ir al el ing ion ent ate ble con com pre pro re de st th sh ch tr pl gr br qu ly ment ness able ist ism ous ful less ty ry s t d m n b k p r l v f g w z y x")
	for len(tokens) < size*8/10 {
		word := ""
		for range 1 + r.IntN(4) {
			word += syllables[r.IntN(len(syllables))]
		}
		switch r.IntN(5) {
		case 0:
			word = strings.ToUpper(word[:1]) + word[1:]
		case 1, 2, 3:
			word = " " + word
		}
		add(word)
	}
	for len(tokens) < size-1 {
		base := []rune{0x400, 0xC0, 0x4E00, 0x3040, 0xAC00, 0x600, 0x900}[r.IntN(7)]
		word := ""
		for range 1 + r.IntN(4) {
			word += string(base + rune(r.IntN(60)))
		}
		add(word)
	}
	return NewVocabulary(size, tokens, []int32{size - 1})
}

// BenchmarkMasks measures the masks of answers within the schemas of testdata, with a vocabulary of 128K. The first answer of a schema computes
// the masks of its states; the following ones find most of them.
func BenchmarkMasks(b *testing.B) {
	v := largeVocabulary()
	for _, s := range readSchemas(b) {
		b.Run(strings.ReplaceAll(s.Name, " ", "-"), func(b *testing.B) {
			g, err := Schema(s.Schema, SchemaOptions{})
			if err != nil {
				b.Fatal(err)
			}
			var first, later, most time.Duration
			firstTokens, laterTokens := 0, 0
			for i := range b.N {
				a := answers{v: v, random: rand.New(rand.NewPCG(uint64(i), 1)), ends: 0.2}
				m, err := NewMatcher(g, v, nil)
				if err != nil {
					b.Fatal(err)
				}
				for answer := range 4 {
					tokens, took, longest := a.follow(b, m, 150)
					if answer == 0 {
						first, firstTokens = first+took, firstTokens+tokens
					} else {
						later, laterTokens = later+took, laterTokens+tokens
					}
					most = max(most, longest)
				}
			}
			b.ReportMetric(float64(first.Microseconds())/float64(max(1, firstTokens)), "µs/token-first")
			b.ReportMetric(float64(later.Microseconds())/float64(max(1, laterTokens)), "µs/token-later")
			b.ReportMetric(float64(most.Microseconds()), "µs-longest")
		})
	}
}

// follow draws an answer, and returns what its masks took.
func (a *answers) follow(b *testing.B, m *Matcher, most int) (tokens int, took, longest time.Duration) {
	c := m.Begin()
	defer c.Close()
	for tokens < most {
		began := time.Now()
		mask, err := c.Mask(most - tokens)
		lasted := time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		took, longest = took+lasted, max(longest, lasted)
		all := ids(mask.Bits)
		if mask.Done || all[len(all)-1] == a.v.ends[0] && (len(all) == 1 || a.random.Float64() < a.ends) {
			break
		}
		id := all[a.random.IntN(len(all))]
		if id == a.v.ends[0] {
			break
		}
		began = time.Now()
		if err := c.Accept(id); err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
		tokens++
	}
	return tokens, took, longest
}
