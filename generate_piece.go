package llmrun

import "github.com/llmrun/llmrun/text/channel"

// Piece is one step of a generation: a token and the text that it completes. Text is empty if
// the token ends in the middle of a character, or if the text may be the beginning of a stop
// string; a later piece then contains it. If text is still held back when the generation
// ends, a last piece with the ID -1 contains it. The concatenated texts of all pieces whose Channel is
// "" or ChannelFinal are the answer.
type Piece struct {
	ID   int32
	Text string
	// Channel is the part of the answer that Text belongs to, for models whose answers have several, such
	// as gpt-oss: "" for all others. Text has no marks of parts. Recipient is the tool that the part calls, such
	// as functions.weather, or "".
	Channel, Recipient string
	// LogProb is the logarithm of the token's probability, and Top are the most likely tokens, if the
	// options ask for them: in the model's distribution, before penalties, bias, filters and temperature.
	LogProb float32
	Top     []TokenLogProb
}

// The channels of answers that have several.
const (
	ChannelAnalysis   = channel.Analysis   // what the model thinks
	ChannelCommentary = channel.Commentary // calls of tools, and what it says before them
	ChannelFinal      = channel.Final      // the answer
)

// Answers reports whether the text is part of the answer, rather than of what the model thinks or says to
// tools.
func (p *Piece) Answers() bool { return p.Channel == "" || p.Channel == ChannelFinal }

// noToken is the ID of a piece that contains only held-back text.
const noToken = -1

// beginAnswer decodes the tokens of the prompt that belong to the answer, from the channel on that is before them. f may be
// nil.
func (g *generation) beginAnswer(f *channel.Format) {
	answered := g.options.answered
	g.channel = f.Behind(g.ids[:max(0, len(g.ids)-len(answered))])
	for _, id := range answered {
		g.decodeToken(&sampled{Piece: Piece{ID: id}})
	}
}
