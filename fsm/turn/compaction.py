"""STUB"""


def helps(before, after, counter):
    return counter(after) <= 0.95 * counter(before)


def room_for(messages, window, cap, counter):
    return max(1, counter(messages) // 4)
