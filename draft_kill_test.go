package llmrun_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// draftedPrefix begins the work of a child process that answers with a drafter: a number of tokens and the drafter follow.
const draftedPrefix = "drafted:"

// answerDrafted answers one prompt in the saved session of a streamed model with most keys and values on flash, and
// saves the session. each receives the tokens.
func answerDrafted(t *testing.T, drafter, model, dir string, turn int, each func(id int32)) {
	o := drafting(llmrun.Options{Threads: 1, Context: 384}, drafter, 8)
	o.Memory = llmrun.MemoryOptions{Chunk: 24, KV: "k8v8", KVRAM: 1}
	o.Cache.KVDir = dir
	o.Memory.RAM = minimum(t, model, o) + 64<<10
	e := open(t, model, o)
	s := openSession(t, e, "book", llmrun.SessionOptions{SaveBehind: true})
	seed := uint64(turn)
	generate := llmrun.GenerateOptions{MaxTokens: 60, IgnoreEOS: true}
	generate.Sampling = llmrun.Sampling{Temperature: 0.8, TopK: 5, Seed: &seed, LogitBias: map[int32]float32{1: 30, 7: 30, 9: 30}}
	prompt := repeating(rand.New(rand.NewPCG(uint64(turn), 3)), e.Info().Vocab, 50)
	for p, err := range s.GenerateIDs(t.Context(), prompt, generate) {
		require.NoError(t, err)
		each(p.ID)
	}
	require.NoError(t, s.Save("book"))
	require.NoError(t, s.Close())
	require.NoError(t, e.Close())
}

// TestKilledWhileGuessing kills a process with SIGKILL in the middle of an answer whose tokens are guessed, and resumes the
// saved session: its answers are those of a session without guesses that nothing disturbed.
func TestKilledWhileGuessing(t *testing.T) {
	path := testutil.Shared(t, "fixtures", "llama3")
	whole, planes := importTo(t, path, "q8", ""), importTo(t, path, "q8", llmrun.NestedThree)
	answer := func(drafter, model, dir string, turn int) (ids []int32) {
		answerDrafted(t, drafter, model, dir, turn, func(id int32) { ids = append(ids, id) })
		return ids
	}
	var want [3][]int32
	plain := t.TempDir()
	for turn := range want {
		want[turn] = answer(llmrun.DraftOff, whole, plain, turn)
	}
	for drafter, model := range map[string]string{llmrun.DraftLookup: whole, llmrun.DraftNested: planes, whole: whole} {
		kills := testutil.Effort(1, 12)
		for kill := range kills {
			after := (60*kill + 33) / kills
			dir := t.TempDir()
			require.Equal(t, want[0], answer(drafter, model, dir, 0))
			cmd := child(fmt.Sprintf("%s%d:%s", draftedPrefix, after, drafter), model, dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			for i := range after {
				require.True(t, lines.Scan())
				require.Equal(t, fmt.Sprint(want[1][i]), lines.Text())
			}
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			_ = stdin.Close() // Wait has closed it
			_, err = llmrun.VerifySession(dir, "book")
			require.NoError(t, err)
			for turn := 1; turn < len(want); turn++ {
				require.Equal(t, want[turn], answer(drafter, model, dir, turn), "%s, killed after %d tokens, turn %d", drafter, after, turn)
			}
		}
	}
}

// answerUntilKilled is the work of the child process: it waits behind a number of tokens until it is killed.
func answerUntilKilled(t *testing.T, work, model, dir string) {
	after, drafter, _ := strings.Cut(strings.TrimPrefix(work, draftedPrefix), ":")
	left, err := strconv.Atoi(after)
	require.NoError(t, err)
	stateHeap(t, statedHeap)
	answerDrafted(t, drafter, model, dir, 1, func(id int32) {
		fmt.Println(id)
		if left--; left == 0 {
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	})
}
