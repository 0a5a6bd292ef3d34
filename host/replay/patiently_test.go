package replay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/host/reader"
)

// busy answers ListOffsets with codes, one after the other, and with the last of them from then on.
type busy struct {
	Host
	codes []reader.Code
	asked int
}

func (b *busy) ListOffsets(context.Context, *reader.ListOffsetsRequest) []reader.OffsetData {
	b.asked++
	code := b.codes[min(b.asked, len(b.codes))-1]
	return []reader.OffsetData{{Code: code, Offset: int64(b.asked)}}
}

// TestPatiently: an error that passes is asked about again, one that stays is an answer, and nothing is asked for ever.
func TestPatiently(t *testing.T) {
	for name, tt := range map[string]struct {
		codes []reader.Code
		want  int // answers
		ends  time.Duration
	}{
		"at once":    {[]reader.Code{reader.None}, 1, 0},
		"passes":     {[]reader.Code{reader.RequestTimedOut, reader.NotLeaderOrFollower, reader.None}, 3, 0},
		"stays":      {[]reader.Code{reader.OffsetOutOfRange, reader.None}, 1, 0},
		"never":      {[]reader.Code{reader.RequestTimedOut}, walkTries, 0},
		"given up":   {[]reader.Code{reader.RequestTimedOut}, 2, walkPause * 3 / 2},
		"comes late": {[]reader.Code{reader.ReplicaNotAvailable, reader.None}, 2, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if tt.ends > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.ends)
					defer cancel()
				}
				h := &busy{codes: tt.codes}
				got := (&OffsetsRequest{}).patiently(ctx, h)
				if want := tt.codes[min(tt.want, len(tt.codes))-1]; h.asked != tt.want || got.Offset != int64(tt.want) || got.ErrorCode != int16(want) {
					t.Errorf("%d answers, the last %+v; want %d with %v", h.asked, got, tt.want, want)
				}
			})
		})
	}
}
