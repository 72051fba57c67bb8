package token

import "slices"

// pairRule is how two texts become one sequence.
type pairRule struct {
	between, behind []int32 // ids between the texts and behind the second one
	kind            int     // type of the tokens of the second text and behind it; those before have type 0
}

// Affixes returns the ids that AddSpecial puts before and behind a text. The caller must not change them.
func (t *Tokenizer) Affixes() (before, behind []int32) { return t.prefix, t.suffix }

// Pair returns the ids between two texts and behind the second one, in models that read two texts as one sequence; the ids
// before the first are those of Affixes. The caller must not change them.
func (t *Tokenizer) Pair() (between, behind []int32) { return t.pair.between, t.pair.behind }

// PairType returns the type of the tokens of the second text and behind it, in models with types of tokens; those before have
// type 0.
func (t *Tokenizer) PairType() int { return t.pair.kind }

// addPair reads the template for two texts. A template of another form leaves the default.
func (s *hfSource) addPair(p *hfComponent, t *Tokenizer) {
	var parts [3][]int32
	at, kind := 0, 0
	for _, item := range p.Pair {
		switch {
		case item.Sequence != nil && at < 2:
			at, kind = at+1, item.Sequence.Kind
		case item.SpecialToken != nil:
			parts[at] = append(parts[at], p.Special[item.SpecialToken.ID].IDs...)
		}
	}
	if at == 2 && slices.Equal(parts[0], t.prefix) {
		t.pair = pairRule{parts[1], parts[2], kind}
	}
}
