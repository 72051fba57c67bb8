package llmrun_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestForkGoesOnAlone forks a session in the middle of an answer. Both sessions, and one without a fork,
// give the same text.
func TestForkGoesOnAlone(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 40)
	s := newSession(t, e)
	first := complete(t, s.Generate(context.Background(), foxPrompt, limit(15)))
	f, err := s.Fork()
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, s.Len(), f.Len())
	for _, each := range []*llmrun.Session{f, s} {
		rest := complete(t, each.GenerateIDs(context.Background(), nil, limit(25)))
		require.Equal(t, want.IDs, append(append([]int32{}, first.IDs...), rest.IDs...))
		require.Equal(t, each.Stats().PromptTokens-1, each.Stats().ReusedTokens)
	}
}

// TestForkKeepsTheConversation asks both sessions after a fork.
func TestForkKeepsTheConversation(t *testing.T) {
	e := demo(t)
	s := newSession(t, e)
	complete(t, s.Chat(context.Background(), "Hello!", limit(20)))
	f, err := s.Fork()
	require.NoError(t, err)
	require.Equal(t, s.Messages(), f.Messages())
	before := s.Messages()
	want := complete(t, f.Chat(context.Background(), "Tell me a story.", limit(20)))
	require.Equal(t, before, s.Messages())
	require.NoError(t, f.Close())
	require.Equal(t, want.IDs, complete(t, s.Chat(context.Background(), "Tell me a story.", limit(20))).IDs)
}

// TestForksAtTheSameTime generates eight answers behind one prompt at the same time.
func TestForksAtTheSameTime(t *testing.T) {
	const forks, tokens = 8, 30
	e := demo(t)
	s := newSession(t, e)
	complete(t, s.Generate(context.Background(), foxPrompt, limit(2)))
	options := func(i int) llmrun.GenerateOptions {
		o := limit(tokens)
		seed := uint64(i)
		o.IgnoreEOS, o.Sampling.Temperature, o.Sampling.Seed = true, 0.8, &seed
		return o
	}
	got, all := make([]answer, forks), make([]*llmrun.Session, forks)
	var running sync.WaitGroup
	for i := range forks {
		var err error
		all[i], err = s.Fork()
		require.NoError(t, err)
		running.Go(func() { got[i] = collect(all[i].GenerateIDs(context.Background(), nil, options(i))) })
	}
	running.Wait()
	for i := range forks {
		require.NoError(t, got[i].err)
		require.NoError(t, all[i].Close())
		alone, err := s.Fork()
		require.NoError(t, err)
		require.Equal(t, complete(t, alone.GenerateIDs(context.Background(), nil, options(i))).IDs, got[i].IDs)
		require.NoError(t, alone.Close())
	}
}

// TestForkOfBusyOrClosedSession returns the errors of other methods.
func TestForkOfBusyOrClosedSession(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{})
	s := newSession(t, e)
	for _, err := range s.Generate(context.Background(), foxPrompt, limit(2)) {
		require.NoError(t, err)
		_, err = s.Fork()
		require.ErrorIs(t, err, llmrun.ErrBusy)
	}
	require.NoError(t, s.Close())
	_, err := s.Fork()
	require.ErrorIs(t, err, llmrun.ErrClosed)
}

// A fork continues the same text in another way, without computing it again.
func ExampleSession_Fork() {
	engine, session := openDemo()
	defer engine.Close()

	continueWith := func(s *llmrun.Session, text string) {
		for piece, err := range s.Generate(context.Background(), text, llmrun.GenerateOptions{MaxTokens: 8}) {
			if err != nil {
				log.Fatal(err)
			}
			text += piece.Text
		}
		fmt.Printf("%s (%d tokens known)\n", text, s.Stats().ReusedTokens)
	}
	continueWith(session, "Once upon a time")
	fork, err := session.Fork()
	if err != nil {
		log.Fatal(err)
	}
	defer fork.Close()
	continueWith(session, " The fox")
	continueWith(fork, " The cat")
	// Output:
	// Once upon a time, there was a curious girl named Olive (0 tokens known)
	//  The fox. She liked to play near the kitchen (11 tokens known)
	//  The cat. She liked to play near the kitchen (11 tokens known)
}
