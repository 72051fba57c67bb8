package jobs

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"time"
)

const (
	// checkInterval is the time between two looks at the system.
	checkInterval = 5 * time.Second
	// pauseInterval is that during a pause.
	pauseInterval = 10 * time.Second
)

// Pauses pauses work. Its fields are set before the first call of Wait, which is safe for concurrent use.
type Pauses struct {
	Battery bool  // while the machine runs on its battery
	Heat    bool  // while it is too hot
	System  fs.FS // like /sys of Linux
	// Note reports pauses and their ends.
	Note func(text string)
	// Now and Sleep are the clock: time.Now, and a sleep that ends early with the context's cause.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	checked time.Time
	hot     bool
	begun   bool
}

// Wait returns when the work may go on. It is cheap where that is at once.
func (p *Pauses) Wait(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Now(); p.begun && now.Sub(p.checked) < checkInterval {
		return nil
	}
	reason := p.reason()
	if reason != "" {
		p.Note("paused: " + reason)
	}
	paused := reason != ""
	for reason != "" {
		if err := p.Sleep(ctx, pauseInterval); err != nil {
			return err
		}
		reason = p.reason()
	}
	if paused {
		p.Note("going on")
	}
	p.checked, p.begun = p.Now(), true
	return nil
}

// reason returns why the work pauses, "" if it does not. The first call tells what the system does not.
func (p *Pauses) reason() string {
	var reasons, unknown []string
	if p.Battery {
		battery, known := OnBattery(p.System)
		if battery {
			reasons = append(reasons, "the machine runs on its battery")
		}
		if !known {
			unknown = append(unknown, "whether it runs on a battery")
		}
	}
	if p.Heat {
		hot, known := Hot(p.System, p.hot)
		if p.hot = hot; hot {
			reasons = append(reasons, "the machine is hot")
		}
		if !known {
			unknown = append(unknown, "at which temperature it is too hot")
		}
	}
	if len(unknown) > 0 && !p.begun {
		p.Note("this machine does not tell " + strings.Join(unknown, ", nor ") + ": there are no pauses for it")
	}
	p.begun = true
	return strings.Join(reasons, ", and ")
}
