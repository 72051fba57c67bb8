package bench

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/exec"
)

// Sustained is the result of decoding for minutes without a pause: whether heat makes the
// machine slower, and what a token costs.
type Sustained struct {
	Threads int     `json:"threads"`
	Depth   int     `json:"depth"` // tokens in the context; it stays the same
	Seconds float64 `json:"seconds"`
	Tokens  int     `json:"tokens"`
	// Windows are the minutes, or the halves of a shorter run. First and Last are the first and
	// the last of them, and Ratio is the speed of Last divided by that of First.
	Windows []Window `json:"windows"`
	First   Window   `json:"first"`
	Last    Window   `json:"last"`
	Ratio   float64  `json:"ratio"`
	// Joules is the energy of the whole run as Energy reports it: "rapl" (processor packages)
	// or "battery" (the whole device, while it discharges). Energy is "" if the system does not
	// tell.
	Energy         string  `json:"energy,omitempty"`
	Joules         float64 `json:"joules,omitempty"`
	JoulesPerToken float64 `json:"joules_per_token,omitempty"`
}

// Window is a part of the run.
type Window struct {
	Seconds   float64 `json:"seconds"`
	Tokens    int     `json:"tokens"`
	TokPerSec float64 `json:"tok_per_s"`
	// CoreMHz is the mean frequency of the fastest core; 0 = the system does not tell.
	CoreMHz float64 `json:"core_mhz,omitempty"`
}

const (
	// sustainedTokens are decoded between two looks at the clock; then the context is cut, so
	// that all tokens cost the same.
	sustainedTokens = 16
	longestWindow   = time.Minute
	// sampleEvery is the time between two looks at the frequency and the energy.
	sampleEvery = time.Second
)

// sustain decodes for o.Sustain.
func (r *Report) sustain(ctx context.Context, o *Options, model *exec.Model) error {
	if o.Sustain <= 0 {
		return nil
	}
	t := Test{Name: "sustained decoding", Threads: o.Threads[len(o.Threads)-1], Depth: o.Depths[0], Length: sustainedTokens, Decode: true}
	if err := t.fits(model); err != nil {
		return err
	}
	b := NewRunner(model)
	defer b.Close()
	if err := b.time(ctx, &t, true); err != nil {
		return err
	}
	s := &Sustained{Threads: t.Threads, Depth: t.Depth}
	if err := s.run(ctx, o, b, &t); err != nil {
		return err
	}
	r.Sustained = s
	return nil
}

// run decodes and fills the windows.
func (s *Sustained) run(ctx context.Context, o *Options, b *Runner, t *Test) error {
	window := min(longestWindow, o.Sustain/2)
	watch := newSensors(o.system())
	start := watch.sampled // the energy is of the same time
	from, at := start, start
	var w Window
	for at.Sub(start) < o.Sustain {
		if _, err := b.Run(ctx, t, false); err != nil {
			return err
		}
		at = time.Now()
		w.Tokens += t.Length
		watch.sample(at)
		if at.Sub(from) >= window {
			s.add(w, at.Sub(from), watch)
			w, from = Window{}, at
			if o.Running != nil {
				o.Running(int64(at.Sub(start)/time.Second), int64(o.Sustain/time.Second))
			}
		}
	}
	if len(s.Windows) == 0 {
		s.add(w, at.Sub(from), watch)
	} else {
		s.Tokens += w.Tokens // less than a window
	}
	s.Seconds = at.Sub(start).Seconds()
	s.First, s.Last = s.Windows[0], s.Windows[len(s.Windows)-1]
	s.Ratio = s.Last.TokPerSec / s.First.TokPerSec
	if s.Energy, s.Joules = watch.energy(at); s.Energy != "" {
		s.JoulesPerToken = s.Joules / float64(s.Tokens)
	}
	return nil
}

// add ends a window.
func (s *Sustained) add(w Window, took time.Duration, watch *sensors) {
	w.Seconds = took.Seconds()
	w.TokPerSec = float64(w.Tokens) / w.Seconds
	w.CoreMHz = watch.frequency()
	s.Tokens += w.Tokens
	s.Windows = append(s.Windows, w)
}

// String describes the result in a few lines.
func (s *Sustained) String() string {
	text := fmt.Sprintf("sustained, threads %d, depth %d: %d tokens in %.0f s; %.2f tok/s in the first %.0f s, %.2f in the last %.0f s, %.0f %%",
		s.Threads, s.Depth, s.Tokens, s.Seconds, s.First.TokPerSec, s.First.Seconds, s.Last.TokPerSec, s.Last.Seconds, 100*s.Ratio)
	if s.First.CoreMHz > 0 {
		text += fmt.Sprintf("\nfastest core: %.0f MHz first, %.0f MHz last", s.First.CoreMHz, s.Last.CoreMHz)
	} else {
		text += "\nfastest core: the system does not tell its frequency"
	}
	if s.Energy != "" {
		return text + fmt.Sprintf("\nenergy (%s): %.1f J, %.3f J per token, %.1f W", s.Energy, s.Joules, s.JoulesPerToken, s.Joules/s.Seconds)
	}
	return text + "\nenergy: the system does not tell"
}

// system returns the file system with the sensors.
func (o *Options) system() fs.FS {
	if o.System != nil {
		return o.System
	}
	return systemRoot()
}
