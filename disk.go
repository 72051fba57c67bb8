package llmrun

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// DiskSpeed is how fast a storage device is. The zero value stands for the one
// that there is.
type DiskSpeed struct {
	BytesPerSecond int64         // of all reads together; 0 = no limit
	Latency        time.Duration // of each read, on top
}

// ParseDiskSpeed reads bytes a second and, behind a comma, how long each read
// waits: "1GB/s", "500MB/s,100us".
func ParseDiskSpeed(text string) (d DiskSpeed, err error) {
	speed, latency, delayed := strings.Cut(text, ",")
	speed, found := strings.CutSuffix(strings.TrimSpace(speed), "/s")
	if !found || strings.HasSuffix(speed, "%") {
		return d, fmt.Errorf("%w: %q is no speed such as 1GB/s or 500MB/s,100us", ErrOptions, text)
	}
	if d.BytesPerSecond, err = tiering.ParseSize(speed, 0); err == nil && delayed {
		d.Latency, err = time.ParseDuration(strings.TrimSpace(latency))
	}
	if err == nil && d.Latency < 0 {
		err = errors.New("the wait is negative")
	}
	if err != nil {
		return DiskSpeed{}, fmt.Errorf("%w: %q is no speed such as 1GB/s or 500MB/s,100us: %w", ErrOptions, text, err)
	}
	return d, nil
}

func (d DiskSpeed) validate() error {
	if d.BytesPerSecond < 0 || d.Latency < 0 {
		return fmt.Errorf("%w: Disk: a speed of %d bytes a second and %v", ErrOptions, d.BytesPerSecond, d.Latency)
	}
	return nil
}

// throttle returns fsys as a device of this speed would serve it.
func (d DiskSpeed) throttle(fsys vfs.FS) vfs.FS {
	if d == (DiskSpeed{}) {
		return fsys
	}
	return vfs.Throttled(fsys, d.BytesPerSecond, d.Latency)
}
