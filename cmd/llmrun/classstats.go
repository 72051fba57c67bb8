package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// classStats are the transfers with flash by urgency, as --stats prints them.
type classStats struct {
	Awaited  classUse `json:"awaited"`
	Streamed classUse `json:"streamed"`
	Guessed  classUse `json:"guessed"`
	Written  classUse `json:"written"`
}

// classUse counts the transfers of a class; see [llmrun.ClassUse].
type classUse struct {
	Transfers int64   `json:"transfers"`
	Bytes     int64   `json:"bytes"`
	Waits     int64   `json:"waits"`
	WaitMS    float64 `json:"wait_ms"`
	MovedUp   int64   `json:"moved_up"`
}

func newClassStats(prefill, decode llmrun.TransferClasses) classStats {
	return classStats{
		sumOf(prefill.Awaited, decode.Awaited), sumOf(prefill.Streamed, decode.Streamed),
		sumOf(prefill.Guessed, decode.Guessed), sumOf(prefill.Written, decode.Written),
	}
}

func sumOf(a, b llmrun.ClassUse) classUse {
	return classUse{
		a.Transfers + b.Transfers, a.Bytes + b.Bytes, a.Waits + b.Waits,
		milliseconds(a.Waited + b.Waited), a.MovedUp + b.MovedUp,
	}
}

// milliseconds returns a duration as statistics print it.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// print shows the classes with transfers to a person.
func (s *classStats) print(w io.Writer) {
	var parts []string
	for _, c := range []struct {
		name string
		use  *classUse
	}{{"awaited", &s.Awaited}, {"streamed", &s.Streamed}, {"guessed", &s.Guessed}, {"written", &s.Written}} {
		if u := c.use; u.Transfers > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (waited %.0f ms in %d)", c.name, cli.FormatBytes(u.Bytes), u.WaitMS, u.Waits))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "transfers: %s\n", strings.Join(parts, ", "))
	}
}
