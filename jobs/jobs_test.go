package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// system returns a file system with small files.
func system(files ...string) fstest.MapFS {
	sys := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		sys["class/"+files[i]] = &fstest.MapFile{Data: []byte(files[i+1] + "\n")}
	}
	return sys
}

func TestUntil(t *testing.T) {
	zone := time.FixedZone("x", 3600)
	now := time.Date(2026, 12, 31, 23, 30, 0, 0, zone)
	for clock, want := range map[string]time.Time{
		"07:00": time.Date(2027, 1, 1, 7, 0, 0, 0, zone),
		"23:45": time.Date(2026, 12, 31, 23, 45, 0, 0, zone),
		"23:30": time.Date(2027, 1, 1, 23, 30, 0, 0, zone),
	} {
		got, err := Until(clock, now)
		require.NoError(t, err)
		require.True(t, want.Equal(got), "%s: %v", clock, got)
	}
	for _, bad := range []string{"", "7", "25:00", "7pm", "07:00:00"} {
		_, err := Until(bad, now)
		require.ErrorContains(t, err, "such as 07:00", bad)
	}
}

// TestEndAt ends work at a time, and also when the clock has passed it while the timers stood still.
func TestEndAt(t *testing.T) {
	stopped := errors.New("stopped at 07:00")
	end := time.Date(9999, 1, 2, 7, 0, 0, 0, time.UTC)
	clock := end
	ctx, check, cancel := EndAt(t.Context(), end, func() time.Time { return clock }, stopped)
	defer cancel()
	clock = end.Add(-time.Second)
	require.NoError(t, check(ctx))
	require.NoError(t, ctx.Err())
	clock = end
	require.ErrorIs(t, check(ctx), stopped)
	require.Error(t, ctx.Err())
	require.ErrorIs(t, context.Cause(ctx), stopped)

	ctx, _, cancel = EndAt(t.Context(), time.Unix(0, 0), time.Now, stopped)
	defer cancel()
	require.ErrorIs(t, context.Cause(ctx), stopped)
}

func TestOnBattery(t *testing.T) {
	for _, c := range []struct {
		name           string
		sys            fstest.MapFS
		battery, known bool
	}{
		{"nothing", system(), false, false},
		{"laptop unplugged", system("power_supply/AC/type", "Mains", "power_supply/AC/online", "0", "power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Discharging"), true, true},
		{"laptop charging", system("power_supply/AC/type", "Mains", "power_supply/AC/online", "1", "power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Charging"), false, true},
		{"two batteries, one idle", system("power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Not charging", "power_supply/BAT1/type", "Battery", "power_supply/BAT1/status", "Discharging"), true, true},
		{"a mouse", system("power_supply/hid/type", "Battery", "power_supply/hid/scope", "Device", "power_supply/hid/status", "Discharging"), false, false},
		{"phone on USB", system("power_supply/usb/type", "USB_PD", "power_supply/usb/online", "1", "power_supply/battery/type", "Battery", "power_supply/battery/status", "Discharging"), false, true},
		{"unknown", system("power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Unknown"), false, false},
	} {
		battery, known := OnBattery(c.sys)
		require.Equal(t, c.battery, battery, c.name)
		require.Equal(t, c.known, known, c.name)
	}
}

func TestHot(t *testing.T) {
	at := func(temperature string) fstest.MapFS {
		return system("thermal/thermal_zone0/temp", temperature, "thermal/thermal_zone0/trip_point_0_type", "active", "thermal/thermal_zone0/trip_point_0_temp", "40000",
			"thermal/thermal_zone0/trip_point_1_type", "critical", "thermal/thermal_zone0/trip_point_1_temp", "105000",
			"thermal/thermal_zone0/trip_point_2_type", "passive", "thermal/thermal_zone0/trip_point_2_temp", "95000")
	}
	for _, c := range []struct {
		temperature string
		was, hot    bool
	}{
		{"91000", false, false}, {"92000", false, true}, {"91000", true, true}, {"84000", true, false}, {"110000", false, true},
	} {
		hot, known := Hot(at(c.temperature), c.was)
		require.True(t, known)
		require.Equal(t, c.hot, hot, "%s after %v", c.temperature, c.was)
	}
	for _, sys := range []fstest.MapFS{system(), system("thermal/thermal_zone0/temp", "120000"), at("garbage"), at("-1")} {
		_, known := Hot(sys, false)
		require.False(t, known)
	}
}

// TestPauses plugs a machine in after three looks, and expects a pause until then, and looks at intervals only.
func TestPauses(t *testing.T) {
	unplugged := system("power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Discharging")
	plugged := system("power_supply/BAT0/type", "Battery", "power_supply/BAT0/status", "Charging")
	clock, slept := time.Unix(0, 0), 0
	var notes []string
	p := &Pauses{Battery: true, Heat: true, System: unplugged, Note: func(text string) { notes = append(notes, text) }, Now: func() time.Time { return clock }}
	p.Sleep = func(_ context.Context, d time.Duration) error {
		clock = clock.Add(d)
		if slept++; slept == 3 {
			p.System = plugged
		}
		return nil
	}
	ctx := context.Background()
	require.NoError(t, p.Wait(ctx))
	require.Equal(t, 3, slept)
	require.Equal(t, []string{"this machine does not tell at which temperature it is too hot: there are no pauses for it", "paused: the machine runs on its battery", "going on"}, notes)
	p.System = unplugged
	require.NoError(t, p.Wait(ctx)) // not looked at again yet
	require.Equal(t, 3, slept)
	clock = clock.Add(checkInterval)
	stopped := errors.New("stopped")
	p.Sleep = func(context.Context, time.Duration) error { return stopped }
	require.ErrorIs(t, p.Wait(ctx), stopped)
}
