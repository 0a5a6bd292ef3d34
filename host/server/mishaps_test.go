package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

func TestMishapsTakeTurns(t *testing.T) {
	var m mishaps
	began := time.Now()
	one, other := mishap{topicPartition{"t", 1}, reader.CorruptMessage}, mishap{topicPartition{"t", 1}, reader.KafkaStorageError}
	for i, tt := range []struct {
		what   mishap
		after  time.Duration
		untold int
		tell   bool
	}{
		{one, 0, 0, true},
		{one, 0, 0, false},
		{other, 0, 0, true},
		{one, time.Minute - 1, 0, false},
		{one, time.Minute, 2, true},
		{other, 2 * time.Minute, 0, true},
		{one, 2 * time.Minute, 0, true},
	} {
		if untold, tell := m.turn(tt.what, began.Add(tt.after)); untold != tt.untold || tell != tt.tell {
			t.Errorf("%d: %d, %v, want %d, %v", i, untold, tell, tt.untold, tt.tell)
		}
	}
}

func TestMishapsAreBounded(t *testing.T) {
	var m mishaps
	began, said := time.Now(), 0
	many := func(at time.Time) (said int) {
		for n := range int32(2 * mishapsMax) {
			if _, tell := m.turn(mishap{topicPartition{"t", n}, reader.CorruptMessage}, at); tell {
				said++
			}
		}
		return said
	}
	said = many(began)
	if said != mishapsMax || len(m.said) != mishapsMax {
		t.Errorf("%d said, %d known of", said, len(m.said))
	}
	if later := many(began.Add(time.Minute)); later < mishapsMax || len(m.said) > mishapsMax {
		t.Errorf("a minute later %d said, %d known of", later, len(m.said))
	}
}

// TestMishapsAreLogged: who runs the server hears of a store that fails, of each partition once, and not of what only a client did
// wrong.
func TestMishapsAreLogged(t *testing.T) {
	v, _ := tiered(t, func(_ context.Context, c memrsm.Call) error {
		return abi.Errorf("fetch_log_segment", "orders", abi.Denied, "the bucket's policy refuses")
	})
	w := v.dial(t)
	for _, tt := range []struct {
		topic  string
		offset int64
	}{{"orders", 0}, {"orders", 0}, {"local", 1 << 40}} {
		topic, err := v.host.Topic(tt.topic)
		if err != nil {
			t.Fatal(err)
		}
		q := fetchOf(topic, 0, 1<<30)
		q.Topics[0].Partitions[0].FetchOffset = tt.offset
		if ask[*kmsg.FetchResponse](w, q, 18).Topics[0].Partitions[0].ErrorCode == 0 {
			t.Errorf("no error of %s at %d", tt.topic, tt.offset)
		}
	}
	warned := []string{}
	for line := range strings.Lines(v.log.String()) {
		if strings.Contains(line, "level=WARN") {
			warned = append(warned, line)
		}
	}
	if len(warned) != 1 {
		t.Fatalf("warned %d times: %s", len(warned), v.log)
	}
	for _, want := range []string{`msg="fetch failed"`, "client=tester", "partition=orders-0", "at=0", "code=KAFKA_STORAGE_ERROR", "the bucket's policy refuses", "untold=0"} {
		if !strings.Contains(warned[0], want) {
			t.Errorf("%s is missing: %s", want, warned[0])
		}
	}
	if info := fmt.Sprint(strings.Count(v.log.String(), "level=INFO"), strings.Contains(v.log.String(), "OFFSET_OUT_OF_RANGE")); info != "2 true" {
		t.Errorf("info: %s: %s", info, v.log)
	}
}
