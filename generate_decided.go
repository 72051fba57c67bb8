package llmrun

import (
	"slices"
	"strings"
	"weak"

	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/constrain"
)

// A model that may call tools decides by itself whether it does, and which. Its answer is free until the arguments of a strict tool begin. From
// there to their end they are held to the schema of the tool.

// decidedCalls returns what the arguments of strict tools are held to.
func (c *chatFormat) decidedCalls(tools []Tool) (*requiredCalls, error) {
	r := &requiredCalls{}
	for i := range tools {
		t := &tools[i]
		if !t.Strict {
			continue
		}
		if _, _, _, ok := c.jsonCalls(); !ok {
			return nil, formNotHeld(t)
		}
		r.calls = append(r.calls, constrain.Call{Name: t.Name, Before: argumentsOf(t.Name), Schema: slices.Clone(t.Parameters), Space: true})
	}
	k, done := c.newCompiler()
	defer done()
	g, err := r.compile(k)
	if err != nil {
		return nil, constraintError(err)
	}
	r.compiled = weak.Make(g)
	return r, nil
}

// argumentsOf returns what is before the arguments of a tool in the language of all of them.
func argumentsOf(name string) string { return name + `"` }

// decided holds the calls that the model decides upon.
type decided struct {
	arguments *constraint
	watch     *answer.Watch // finds where arguments begin; nil: channels have a recipient
	tools     []string      // that are strict
	text      func(id int32) []byte
	refused   []uint64 // [vocab/64] clear bits are tokens that begin arguments otherwise than a schema allows

	tried  int32 // the last token that was tried
	begins bool  // arguments begin with it, and go on behind it
	shown  bool  // the last token belonged to a message, of an answer with channels
}

// holdDecided begins to watch for calls.
func (g *generation) holdDecided(how *reading) error {
	e := g.session.engine
	held, err := e.constrain(&source{kind: "calls", calls: how.decided})
	if err != nil {
		return err
	}
	d := &decided{arguments: held, text: e.tok.t.TokenBytes, tried: noToken}
	for i := range how.decided.calls {
		d.tools = append(d.tools, how.decided.calls[i].Name)
	}
	if p := how.format.NewParser(how.end, how.tools); p != nil {
		d.watch = p.Watch()
		d.watch.Take(how.begun)
	}
	g.decided = d
	return nil
}

// draw chooses a token of those that are allowed. One that has the beginning of arguments which are not in the schema of their tool is not taken:
// the next best is, as if it had not been in the vocabulary.
func (g *generation) draw(logits []float32) (id int32, err error) {
	d := g.decided
	for n := 0; ; n++ {
		if id, err = g.sampler.Sample(logits); err != nil || d == nil || d.watch == nil || g.held != nil || g.isEnd(id) {
			return id, err
		}
		ok, err := d.try(id)
		if ok || err != nil {
			return id, constraintError(err)
		}
		if n == 0 {
			d.refused = slices.Grow(d.refused[:0], (len(logits)+63)/64)[:(len(logits)+63)/64]
			for i := range d.refused {
				d.refused[i] = ^uint64(0)
			}
		}
		d.refused[id/64] &^= 1 << (id % 64)
		g.sampler.Allow(d.refused)
	}
}

// try reports whether a token may follow outside of arguments that are held.
func (d *decided) try(id int32) (ok bool, err error) {
	trial := d.watch.Try(string(d.text(id)))
	d.tried, d.begins = id, false
	if trial.Refused || trial.Name == "" {
		return !trial.Refused, nil
	}
	if ok, err = d.begin(trial.Name, trial.Arguments); ok {
		d.begins = !d.arguments.cursor.Accepts()
	}
	return ok, err
}

// begin moves to where the arguments of a tool go on behind a text.
func (d *decided) begin(name, text string) (ok bool, err error) {
	d.arguments.cursor.Restart()
	return d.arguments.cursor.Read(argumentsOf(name) + text)
}

// passedDecided is passed for calls that the model decides upon. Behind the arguments of a call the answer is free again; with channels it
// ends there, because nothing belongs to a message behind them.
func (g *generation) passedDecided(id int32, held bool) (complete bool, err error) {
	d := g.decided
	if held {
		if err = d.arguments.cursor.Accept(id); err == nil {
			complete, err = d.arguments.cursor.Done()
		}
		if complete {
			g.held = nil
		}
	}
	begins := false
	switch {
	case err != nil:
	case d.watch == nil:
		begins, err = g.headerBegins()
	default:
		complete = false
		begins, err = d.take(id, held)
	}
	if begins {
		g.held = d.arguments
	}
	return complete, constraintError(err)
}

// take reads a token, and reports whether arguments begin with it or must follow it.
func (d *decided) take(id int32, held bool) (begins bool, err error) {
	if !held && d.tried != id {
		_, err = d.try(id)
	}
	begins = d.begins
	d.watch.Take(string(d.text(id)))
	d.tried, d.begins = noToken, false
	if begins || err != nil {
		return begins, err
	}
	if name := d.watch.Expects(); name != "" {
		return d.begin(name, "")
	}
	return false, nil
}

// headerBegins reports whether the arguments of a strict tool follow a header that is complete.
func (g *generation) headerBegins() (bool, error) {
	d, shows := g.decided, g.channel.Shows()
	follows := shows && !d.shown
	d.shown = shows
	name := strings.TrimPrefix(g.channel.Recipient(), "functions.")
	if !follows || !slices.Contains(d.tools, name) {
		return false, nil
	}
	return d.begin(name, "")
}
