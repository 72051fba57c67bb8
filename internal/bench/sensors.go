package bench

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// systemRoot returns the root of the system's files.
func systemRoot() fs.FS { return os.DirFS("/") }

// sensors reads the frequency of the cores and the energy from Linux's /sys and /proc. What
// cannot be read is left out: some systems hide it, and RAPL needs root.
type sensors struct {
	root  fs.FS
	cores []string // files with the frequency of a core in kHz
	rapl  []raplZone
	power []string // directories of batteries

	sampled time.Time
	joules  float64 // of the battery so far
	drained bool    // the battery told its power at each sample so far
	watts   float64 // of the battery at the last sample

	mhz     float64 // sum of the samples since the last call of frequency
	samples int
	looked  bool // sensors were read since then
}

// raplZone is the energy counter of a processor package.
type raplZone struct {
	dir    string
	last   float64 // microjoules
	joules float64
	failed bool
}

// newSensors finds the sensors and takes the first sample.
func newSensors(root fs.FS) *sensors {
	s := &sensors{root: root}
	s.cores, _ = fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq") // the pattern is valid
	zones, _ := fs.Glob(root, "sys/class/powercap/intel-rapl:*")
	for _, dir := range zones {
		// Zones with two colons are parts of a package.
		if start, ok := s.number(path.Join(dir, "energy_uj")); ok && strings.Count(dir, ":") == 1 {
			s.rapl = append(s.rapl, raplZone{dir: dir, last: start})
		}
	}
	supplies, _ := fs.Glob(root, "sys/class/power_supply/*")
	for _, dir := range supplies {
		if s.text(path.Join(dir, "type")) == "Battery" && s.text(path.Join(dir, "scope")) != "Device" { // not that of a mouse
			s.power = append(s.power, dir)
		}
	}
	s.watts, s.drained = s.batteryWatts()
	s.sampled = time.Now()
	return s
}

// sample reads all sensors, once for each sampleEvery and at least once for a window.
func (s *sensors) sample(now time.Time) {
	if now.Sub(s.sampled) < sampleEvery && s.looked {
		return
	}
	s.read(now)
}

func (s *sensors) read(now time.Time) {
	s.looked = true
	if mhz := s.coreMHz(); mhz > 0 {
		s.mhz, s.samples = s.mhz+mhz, s.samples+1
	}
	for i := range s.rapl {
		s.rapl[i].read(s)
	}
	watts, ok := s.batteryWatts()
	s.joules += (s.watts + watts) / 2 * now.Sub(s.sampled).Seconds()
	s.watts, s.drained, s.sampled = watts, s.drained && ok, now
}

// frequency returns the mean frequency of the fastest core since the last call.
func (s *sensors) frequency() (mhz float64) {
	if s.samples > 0 {
		mhz = s.mhz / float64(s.samples)
	}
	s.mhz, s.samples, s.looked = 0, 0, false
	return mhz
}

// energy returns the energy until now and where it was read.
func (s *sensors) energy(now time.Time) (source string, joules float64) {
	s.read(now)
	failed := len(s.rapl) == 0
	for i := range s.rapl {
		joules += s.rapl[i].joules
		failed = failed || s.rapl[i].failed
	}
	switch {
	case !failed:
		return "rapl", joules
	case s.drained && s.joules > 0:
		return "battery", s.joules
	}
	return "", 0
}

// coreMHz returns the frequency of the fastest core.
func (s *sensors) coreMHz() (mhz float64) {
	for _, file := range s.cores {
		if khz, ok := s.number(file); ok {
			mhz = max(mhz, khz/1e3)
		}
	}
	if mhz > 0 {
		return mhz
	}
	for line := range strings.Lines(s.text("proc/cpuinfo")) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "cpu MHz" {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			mhz = max(mhz, n)
		}
	}
	return mhz
}

// read adds the energy since the last sample. The counter begins again at 0 when it is full.
func (z *raplZone) read(s *sensors) {
	now, ok := s.number(path.Join(z.dir, "energy_uj"))
	if !ok {
		z.failed = true
		return
	}
	used := now - z.last
	if used < 0 {
		full, ok := s.number(path.Join(z.dir, "max_energy_range_uj"))
		z.failed = z.failed || !ok
		used += full
	}
	z.joules += used / 1e6
	z.last = now
}

// batteryWatts returns the power that the batteries give; ok is false if there is none, or one
// is not discharging or does not tell.
func (s *sensors) batteryWatts() (watts float64, ok bool) {
	for _, dir := range s.power {
		if s.text(path.Join(dir, "status")) != "Discharging" {
			return 0, false
		}
		if microwatts, known := s.number(path.Join(dir, "power_now")); known {
			watts += max(microwatts, -microwatts) / 1e6
			continue
		}
		microamperes, known := s.number(path.Join(dir, "current_now"))
		microvolts, knownToo := s.number(path.Join(dir, "voltage_now"))
		if !known || !knownToo {
			return 0, false
		}
		watts += max(microamperes, -microamperes) * microvolts / 1e12 // some systems count it as negative
	}
	return watts, len(s.power) > 0
}

// number returns the number in a file.
func (s *sensors) number(file string) (float64, bool) {
	n, err := strconv.ParseFloat(s.text(file), 64)
	return n, err == nil
}

// text returns the text of a file, "" if it cannot be read.
func (s *sensors) text(file string) string {
	data, err := fs.ReadFile(s.root, file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
