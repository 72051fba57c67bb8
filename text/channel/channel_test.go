package channel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vocabulary has each word of the texts as a token.
type vocabulary struct{ pieces []string }

func (v *vocabulary) ID(piece string) (int32, bool) {
	for i, p := range v.pieces {
		if p == piece {
			return int32(i), true
		}
	}
	return 0, false
}

// encode returns the ids of words, which it adds to the vocabulary.
func (v *vocabulary) encode(words string) (ids []int32) {
	for _, w := range strings.Fields(words) {
		id, ok := v.ID(w)
		if !ok {
			id = int32(len(v.pieces))
			v.pieces = append(v.pieces, w)
		}
		ids = append(ids, id)
	}
	return ids
}

func (v *vocabulary) text(id int32) []byte { return []byte(strings.ReplaceAll(v.pieces[id], "_", " ")) }

// split returns the messages of an answer: channel, recipient and text.
func split(v *vocabulary, f *Format, prompt, answer string) (out []string) {
	s := f.Behind(v.encode(prompt))
	last := ""
	for _, id := range v.encode(answer) {
		if !s.Next(id) {
			last = ""
			continue
		}
		if at := s.Channel() + "|" + s.Recipient() + "|"; at != last {
			out, last = append(out, at), at
		}
		out[len(out)-1] += string(v.text(id))
	}
	return out
}

func TestAnswersAreSplitIntoChannels(t *testing.T) {
	for _, c := range []struct {
		name, prompt, answer string
		want                 []string
	}{
		{
			"thought and answer", "<|start|> user <|message|> hi <|end|> <|start|> assistant",
			"<|channel|> analysis <|message|> they greet <|end|> <|start|> assistant <|channel|> final <|message|> hello _there <|return|>",
			[]string{"analysis||theygreet", "final||hello there"},
		},
		{
			"call of a tool", "<|start|> assistant",
			"<|channel|> commentary _to=functions.f _ <|constrain|> json <|message|> {} <|call|>",
			[]string{"commentary|functions.f|{}"},
		},
		{
			"recipient before the channel", "<|start|> assistant",
			"_to=functions.f <|channel|> commentary _json <|message|> {} <|call|>",
			[]string{"commentary|functions.f|{}"},
		},
		{
			"the prompt has the header", "<|start|> assistant <|channel|> final <|message|>", "yes <|return|>", []string{"final||yes"},
		},
		{"no channel", "<|start|> assistant", "<|message|> yes <|end|> lost", []string{"||yes"}},
		{"no header in the prompt", "a text", "goes on <|channel|> final <|message|> end", []string{"||goeson", "final||end"}},
		{"no name", "<|start|> assistant", "<|channel|> to=x <|message|> y", []string{"|x|y"}},
		{"the recipient ends with its message", "<|start|> assistant", "<|channel|> commentary _to=a <|message|> x <|call|> <|start|> assistant <|channel|> final <|message|> y", []string{"commentary|a|x", "final||y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &vocabulary{pieces: append([]string(nil), spellings[:]...)}
			f := New(v.ID, v.text)
			require.NotNil(t, f)
			require.Equal(t, c.want, split(v, f, c.prompt, c.answer))
		})
	}
}

// TestOtherVocabulariesHaveNoChannels shows all tokens if a mark is missing.
func TestOtherVocabulariesHaveNoChannels(t *testing.T) {
	v := &vocabulary{pieces: append([]string(nil), spellings[1:]...)}
	f := New(v.ID, v.text)
	require.Nil(t, f)
	require.Equal(t, []string{"||<|channel|>final<|message|>x"}, split(v, f, "p", "<|channel|> final <|message|> x"))
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte{0, 7, 1, 8, 3, 9, 4, 0, 7, 1, 10, 3, 11, 5})
	v := &vocabulary{pieces: append([]string(nil), spellings[:]...)}
	v.encode("assistant analysis to=x final y")
	format := New(v.ID, v.text)
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := format.Behind(nil)
		for _, b := range raw {
			id := int32(b) % int32(len(v.pieces))
			if s.Next(id) && id < marks {
				t.Fatalf("the mark %s is shown", spellings[id])
			}
		}
	})
}
