package coordinator

import (
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRegex: patterns that people write are taken, those that cost much are not, by what they are when they are written out.
func TestRegex(t *testing.T) {
	for pattern, good := range map[string]bool{
		"": true, "orders-.*": true, `^(orders|payments)\.[a-z]{1,249}$`: true, `\p{L}+`: true, "(": false, "a)(b": false,
		strings.Repeat("a|", 2000):                           true,
		"(?:" + strings.Repeat("[a-c]x", 300) + "){1000}":    false,
		"(.{1000}){1000}":                                    false, // Go refuses it
		"a)|(?:" + strings.Repeat("a", 900) + "){1000}|(?:b": false, // a pattern between "^(?:" and ")$" only
		"(" + strings.Repeat(".", 1000) + "){900}":           false,
		strings.Repeat(`\pL{900}`, 20):                       false,
		strings.Repeat("a", maxRegex+1):                      false,
	} {
		if _, err := checkRegex(pattern); (err == nil) != good {
			t.Errorf("%.40q: %v", pattern, err)
		}
	}
}

// TestRegexRefused: a member hears what is wrong, and the group inside never sees the pattern.
func TestRegexRefused(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.RebalanceTimeoutMillis = 1, "g", "m", 60000
	q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	pattern := "(?:" + strings.Repeat("[a-c]x", 300) + "){1000}"
	q.SubscribedTopicRegex = &pattern
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q)
	runtime.ReadMemStats(&after)
	if resp.ErrorCode != invalidRegularExpression || resp.ErrorMessage == nil || !strings.Contains(*resp.ErrorMessage, "too large") {
		t.Errorf("%+v", resp)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("it took %d bytes", took)
	}
	for _, none := range []string{"(", "a)|(?:" + strings.Repeat("[a-c]x", 300) + "){1000}|(?:b"} {
		q.SubscribedTopicRegex = &none
		if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q); resp.ErrorCode != invalidRegularExpression {
			t.Errorf("%.10q: %+v", none, resp)
		}
	}
	small := "orders"
	q.SubscribedTopicRegex = &small
	if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q); resp.ErrorCode != 0 {
		t.Errorf("a small one: %+v", resp)
	}
}
