package main

import (
	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// keptTokens are the tokens of an answer with their probabilities, until they are printed behind it. They take a kilobyte a token with
// --logprobs 100, so the engine's budget counts them.
type keptTokens struct {
	list []keptToken
	room *llmrun.Room
}

// keptToken is what of a piece is printed.
type keptToken struct {
	id      int32
	logProb float32
	text    string
	top     []llmrun.TokenLogProb
}

func newKeptTokens(engine *llmrun.Engine) *keptTokens {
	return &keptTokens{room: engine.NewRoom("the list of probabilities")}
}

// add appends the token of a piece. Without a list it does nothing.
func (k *keptTokens) add(p *llmrun.Piece) error {
	if k == nil {
		return nil
	}
	const perToken, perTop = 128, 8 // in an array that has grown
	if err := k.room.Add(perToken + int64(len(p.Text)) + perTop*int64(cap(p.Top))); err != nil {
		return err
	}
	k.list = append(k.list, keptToken{p.ID, p.LogProb, p.Text, p.Top})
	return nil
}

// report lists the tokens for the JSON object.
func (k *keptTokens) report(engine *llmrun.Engine) cli.JSONList {
	return func(yield func(any) bool) {
		for _, t := range k.list {
			if !yield(newTokenReport(engine, &llmrun.Piece{ID: t.id, LogProb: t.logProb, Text: t.text, Top: t.top})) {
				return
			}
		}
	}
}

// release returns the memory to the budget.
func (k *keptTokens) release() {
	k.list = nil
	k.room.Close()
}

// keptText counts the text of an answer until it is printed, because a model's files can make tokens of any length.
type keptText struct {
	room  *llmrun.Room
	cost  int64 // of a byte
	bytes int64
}

// newKeptText returns the room of an answer that is printed as it comes, or at its end as JSON, where a byte may become six in buffers that
// grow.
func newKeptText(engine *llmrun.Engine, json bool) *keptText {
	k := &keptText{room: engine.NewRoom("the text of the answer"), cost: 2}
	if json {
		k.cost = 32
	}
	return k
}

// add counts the text of a piece. What a usual answer takes is part of every plan.
func (k *keptText) add(p *llmrun.Piece) error {
	const free = 64 << 10
	k.bytes += int64(len(p.Text))
	if k.bytes <= free {
		return nil
	}
	return k.room.Add(k.cost * min(int64(len(p.Text)), k.bytes-free))
}
