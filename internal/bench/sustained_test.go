package bench

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }

// TestSustainedDecoding decodes for a moment on a system with made-up sensors.
func TestSustainedDecoding(t *testing.T) {
	o := Options{
		Path: tinyModel(t), Depths: []int{32}, Threads: []int{1}, SweepBytes: 8 << 20, Sustain: 60 * time.Millisecond,
		System: fstest.MapFS{
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq":  file("1800000"),
			"sys/devices/system/cpu/cpu11/cpufreq/scaling_cur_freq": file("2400000"),
			"sys/class/power_supply/BAT0/type":                      file("Battery"),
			"sys/class/power_supply/BAT0/status":                    file("Discharging"),
			"sys/class/power_supply/BAT0/power_now":                 file("5000000"),
		},
	}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, r.Tests)
	s := r.Sustained
	require.GreaterOrEqual(t, s.Seconds, 0.06)
	require.Zero(t, s.Tokens%sustainedTokens)
	require.Positive(t, s.Tokens)
	require.Equal(t, s.Windows[0], s.First)
	require.Equal(t, s.Windows[len(s.Windows)-1], s.Last)
	require.InDelta(t, s.Last.TokPerSec/s.First.TokPerSec, s.Ratio, 1e-9)
	require.InDelta(t, 2400, s.First.CoreMHz, 1e-9)
	require.Equal(t, "battery", s.Energy)
	require.InEpsilon(t, 5*s.Seconds, s.Joules, 1e-6)
	require.InDelta(t, s.Joules/float64(s.Tokens), s.JoulesPerToken, 1e-9)
	require.Contains(t, s.String(), "fastest core: 2400 MHz first")
	require.Contains(t, s.String(), "energy (battery): ")
	o.System = fstest.MapFS{}
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, r.Sustained.First.CoreMHz)
	require.Empty(t, r.Sustained.Energy)
	require.Contains(t, r.Sustained.String(), "energy: the system does not tell")
}

// TestSensors reads counters that wrap, batteries that charge, and files that are missing.
func TestSensors(t *testing.T) {
	rapl := fstest.MapFS{
		"sys/class/powercap/intel-rapl:0/energy_uj":           file("900000000"),
		"sys/class/powercap/intel-rapl:0/max_energy_range_uj": file("1000000000"),
		"sys/class/powercap/intel-rapl:0:0/energy_uj":         file("1"), // a part of the package
		"sys/class/powercap/intel-rapl:1/energy_uj":           file("5000000"),
		"proc/cpuinfo": file("processor : 0\ncpu MHz\t\t: 2100.5\nprocessor : 1\ncpu MHz\t\t: 3000.25"),
	}
	s := newSensors(rapl)
	at := s.sampled
	rapl["sys/class/powercap/intel-rapl:0/energy_uj"] = file("100000000")
	rapl["sys/class/powercap/intel-rapl:0:0/energy_uj"] = file("700000000")
	rapl["sys/class/powercap/intel-rapl:1/energy_uj"] = file("7000000")
	source, joules := s.energy(at.Add(time.Second))
	require.Equal(t, "rapl", source)
	require.InDelta(t, 202, joules, 1e-9)
	require.InDelta(t, 3000.25, s.frequency(), 1e-9)
	require.Zero(t, s.frequency(), "no sample since")
	delete(rapl, "sys/class/powercap/intel-rapl:1/energy_uj")
	source, _ = s.energy(at.Add(2 * time.Second))
	require.Empty(t, source, "a counter went away")

	for name, c := range map[string]struct {
		files map[string]string
		watts float64
		known bool
	}{
		"none":     {nil, 0, false},
		"power":    {map[string]string{"type": "Battery", "status": "Discharging", "power_now": "3000000"}, 3, true},
		"current":  {map[string]string{"type": "Battery", "status": "Discharging", "current_now": "-500000", "voltage_now": "4000000"}, 2, true},
		"charging": {map[string]string{"type": "Battery", "status": "Charging", "power_now": "3000000"}, 0, false},
		"silent":   {map[string]string{"type": "Battery", "status": "Discharging", "current_now": "1"}, 0, false},
		"mains":    {map[string]string{"type": "Mains", "status": "Discharging", "power_now": "3000000"}, 0, false},
		"mouse":    {map[string]string{"type": "Battery", "scope": "Device", "status": "Discharging", "power_now": "3"}, 0, false},
		"text":     {map[string]string{"type": "Battery", "status": "Discharging", "power_now": strings.Repeat("x", 9)}, 0, false},
	} {
		fsys := fstest.MapFS{}
		for f, text := range c.files {
			fsys["sys/class/power_supply/b/"+f] = file(text)
		}
		watts, known := newSensors(fsys).batteryWatts()
		require.Equal(t, c.known, known, name)
		require.InDelta(t, c.watts, watts, 1e-9, name)
	}
}
