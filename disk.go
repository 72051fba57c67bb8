package llmrun

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// DiskSpeed is the speed of a simulated storage device. The zero value does not throttle.
type DiskSpeed struct {
	BytesPerSecond int64         // for all reads together; 0 = no limit
	Latency        time.Duration // added to each read
}

// ParseDiskSpeed parses a throughput and an optional latency of each read, such as "1GB/s" or
// "500MB/s,100us".
func ParseDiskSpeed(text string) (d DiskSpeed, err error) {
	speed, latency, delayed := strings.Cut(text, ",")
	speed, found := strings.CutSuffix(strings.TrimSpace(speed), "/s")
	if !found || strings.HasSuffix(speed, "%") {
		return d, fmt.Errorf("%w: the disk speed is %q; it must look like 1GB/s or 500MB/s,100us", ErrOptions, text)
	}
	if d.BytesPerSecond, err = tiering.ParseSize(speed, 0); err == nil && delayed {
		d.Latency, err = time.ParseDuration(strings.TrimSpace(latency))
	}
	if err == nil && d.Latency < 0 {
		err = errors.New("the latency is negative")
	}
	if err != nil {
		return DiskSpeed{}, fmt.Errorf("%w: the disk speed is %q; it must look like 1GB/s or 500MB/s,100us: %w", ErrOptions, text, err)
	}
	return d, nil
}

func (d DiskSpeed) validate() error {
	if d.BytesPerSecond < 0 || d.Latency < 0 {
		return fmt.Errorf("%w: Lab.Disk is %d bytes/s with a latency of %v; neither may be negative", ErrOptions, d.BytesPerSecond, d.Latency)
	}
	return nil
}

// simulatedDisks holds the devices that files of this process are read from, by their speed.
var simulatedDisks sync.Map // DiskSpeed → *vfs.Device

// throttle returns fsys with the speed of d. All files share one device, as weights, keys and
// values do on a phone.
func (d DiskSpeed) throttle(fsys vfs.FS) vfs.FS {
	if d == (DiskSpeed{}) {
		return fsys
	}
	device, ok := simulatedDisks.Load(d)
	if !ok {
		device, _ = simulatedDisks.LoadOrStore(d, vfs.NewDevice(d.BytesPerSecond, d.Latency))
	}
	return device.(*vfs.Device).Throttle(fsys)
}
