"""How many tests run at once, how much Hypothesis tries, and which tests are left to `.ci/run full`."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from zlib import crc32

import pytest
from hypothesis import settings

# No example fails for its time: a machine that is busy is slow. An ordinary run tries the same examples each time, so
# that what fails there is what has changed; the thorough one, and `rungwise fuzz`, look for what nobody has met yet.
settings.register_profile("thorough", deadline=None)
settings.register_profile("ordinary", max_examples=25, deadline=None, derandomize=True)
settings.load_profile("thorough" if os.environ.get("THOROUGH") else "ordinary")  # `.ci/run full` is thorough


os.environ |= {"AWS_REGION": "eu-north-1", "AWS_EC2_METADATA_DISABLED": "true"}  # no test asks the machine's own


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are processors: many tests wait for a deadline to pass."""
    return (os.cpu_count() or 1) + 1


LONG = (
    # What stands in recipes to be copied, and bears no mark of its own.
    "test_own_turns.py::TestManyTurnsAtOnce",
    "test_own_policy.py::TestManyCallsAtOnce",
    # What takes seconds, where others of its kind take less.
    "test_policies.py::test_each_command_shows_the_table_of_a_policy_in_python",
    "test_verify.py::test_a_rung_with_its_own_counter_is_accepted_and_counted",
    "test_verify.py::test_a_table_that_loses_a_backend_is_told_so_and_is_not_refused[after fell_silent]",
    "test_verify.py::test_a_table_in_another_order_is_accepted",
    "test_verify.py::test_a_generous_policy_is_certified",
    "test_fuzz.py::test_the_command_is_imported_without_hypothesis",
    "test_cancelling.py::test_cancelled_in_the_middle_of_a_stream_on_the_callers_own_client[httpx2]",
    "replay/test_turns.py::test_a_journal_in_memory_replays_with_its_own_rungs",
    "test_mutations.py::test_what_is_ruled_out_of_facts_never_comes_about",
    "test_worst.py::test_a_way_back_to_the_first_rung_is_no_first_attempt",
    "test_rules.py::test_a_row_with_what_its_target_needs_is_taken[refused to plead]",
    "test_failover.py::test_each_fault_comes_to_what_is_promised[the defaults-S01]",
    "test_hostile_bodies.py::test_a_stream_without_an_end_is_cut_with_the_text_so_far[nothing-stream]",
    "test_diff.py::test_a_policy_of_a_turn_does_not_differ_from_itself",
    "test_rules.py::test_a_policy_refuses_a_table_on_which_a_call_would_not_be_honest[fallback",
    "test_fuzz.py::test_a_dishonest_turn_is_written_as_a_script_that_fails_again",
    "test_explain.py::test_a_page_is_one_file_that_loads_nothing[play a turn]",
    "test_walk.py::test_a_machine_that_is_compiled_otherwise_than_its_table_says_is_found[everything",
    "call/test_own_rungs.py::test_it_is_taken_as_often_as_its_limit_says[0]",
    "testing/test_turns.py::TestTight",
    "test_worst.py::test_a_huge_chain_is_no_trouble_either",
    "test_reading_replies.py::test_the_work_is_linear[calls without an index]",
    "test_cli.py::test_a_terminal_whose_locale_lacks_the_letters_gets_substitutes",
    "test_diff.py::test_what_changes_for_the_calls_of_a_turn_stands_below",
    "test_contributing.py::test_a_diff_of_a_contributors_page_does_what_it_says[rung]",
    "test_failover.py::test_each_fault_comes_to_what_is_promised[the defaults-S02]",
    "test_worst.py::test_an_own_table_with_another_rung_is_counted",
    "test_worst_scripts.py::test_no_random_script_passes_a_worst_case",
    "test_diff.py::test_a_turn_is_compared_with_its_fields_rows_and_worst_cases",
    "test_fuzz.py::test_an_honest_policy_exits_with_0",
    "test_fuzz.py::test_honest_turns_exit_with_0",
    "test_cli.py::test_without_a_number_of_backends_the_worst_cases_of_two_fallbacks_are_told_as_well",
    "test_cli.py::test_a_budget_of_money_is_certified_with_prices",
    "test_own_rungs.py::test_an_answer_that_is_beside_the_point_is_pleaded_with_and_taken_back[call]",
    "test_tracebacks.py::test_of_an_observer_and_a_compactor_that_raise[astream]",
    "test_rules.py::test_a_policy_refuses_a_table_on_which_a_call_would_not_be_honest[await --came_empty",
    "test_verify.py::test_the_default_policy_is_proved[2",
    "test_verify.py::test_an_exhaustive_walk_takes_the_limits_of_the_policy",
    "test_verify.py::test_tables_without_some_rungs_are_accepted",
    "test_own_rungs.py::test_the_hint_stands_before_an_answer_that_is_gone_on_from[whole",
    "test_fuzz.py::test_a_finding_exits_with_1_and_writes_a_script",
    "test_ask_tools.py::test_a_terminal_sees_what_is_said_beside_tools_and_nothing_twice",
    "test_failover.py::test_each_fault_comes_to_what_is_promised[interactive-S01]",
    "test_budgets.py::test_a_provider_that_hangs_leaves_the_fallback_its_reserve",
    "test_walk.py::test_a_machine_that_is_compiled_otherwise_than_its_table_says_is_found[a guard always holds]",
    "test_check.py::test_a_mistake_is_named[which does not rank",
    "test_call_options.py::test_the_timeouts_of_a_calls_own_policy_hold_on_the_wire[call]",
    "test_turn_page.py::test_the_button_of_a_step_opens_the_page_of_its_call[",
    "test_clocks.py::test_the_last_backend_is_asked_again_and_then_waited_for",
    "test_cli.py::test_ctrl_c_keeps_what_a_pipe_may_have",
    "test_policies.py::test_what_is_no_policy_is_bad_input",
    "test_check.py::test_a_derived_table_is_checked_by_whoever_uses_it_and_not_before",
    "test_own_rungs.py::test_a_limit_that_the_declaration_leaves_to_its_owner_must_be_given",
    "test_verify.py::test_it_says_what_the_last_backend_has_at_least[budget1-reserve1-2-kept1]",
    "test_hostile_bodies.py::test_a_body_that_unpacks_to_gigabytes_is_left_alone[acall-gzip]",
    "test_clocks.py::test_without_another_try_the_last_backend_may_be_as_late_as_the_call_allows[own sync]",
    "test_failover.py::test_each_fault_comes_to_what_is_promised[interactive-S02]",
    "test_failures.py::test_a_backend_that_never_answers_is_left_after_so_many_timeouts[stream",
    "test_promela.py::test_spin_finds_the_worst_case_of_the_ladder_itself_and_none_that_is_worse[call",
    "test_promela.py::test_the_figure_is_that_of_the_certificate",
    "test_page.py::test_a_page_fits_and_every_text_of_it_can_be_read[long turn",
    "test_diff.py::test_rows_of_the_continuation_die_only_with_every_way_to_it",
    "test_diff.py::test_a_limit_of_0_kills_its_rows_and_what_only_they_lead_to",
    "test_diff.py::test_a_derived_table_shows_its_rows",
    "test_diff_page.py::test_a_page_of_a_turn_has_a_part_for_its_calls",
    "test_diff_markdown.py::test_ladders_whose_rows_change_are_drawn",
    "test_own_turns.py::test_our_turns_are_honest",
    "test_diff_words.py::test_a_rung_that_waited_for_nothing_was_taken_all_the_same",
    "test_cli.py::test_what_goes_to_a_file_needs_no_stdout",
    "end_to_end/test_own_rungs.py::test_an_answer_that_is_beside_the_point_is_pleaded_with_and_taken_back[stream",
    "test_diff_page.py::test_it_fits_and_can_be_read_at_every_width_by_day_and_by_night[of_nothing",
    "test_turns.py::test_no_script_of_a_turn_passes_a_worst_case_and_exact_ones_are_attained[changes0",
    "test_failover.py::test_each_fault_comes_to_what_is_promised[interactive-S03",
    "test_policies.py::test_where_a_policy_of_calls_is_wanted_that_of_a_turn_is_told_apart",
    "test_what_if.py::test_a_fact_that_another_function_finds_now_is_not_known",
    "test_what_if.py::test_a_fact_that_nobody_recorded_counts_only_where_it_would_decide",
    "test_explain.py::test_a_derived_table_must_be_passed",
    "test_promela.py::test_the_figure_of_the_model_is_its_own_where_a_fact_lasts",
    "test_promela.py::test_a_row_that_is_never_taken_is_told",
    "certificate/test_scripts.py::test_a_connection_that_must_be_lost_is_no_servers_to_lose",
    "test_diff.py::test_the_worst_cases_are_for_one_to_three_backends_unless_a_number_is_given",
    "test_diff_page.py::test_the_ladders_show_what_is_new_gone_and_moved",
    "test_pictures.py::test_a_policy_of_a_turn_brings_that_of_its_calls",
    "b(prompt|input|messages) (tokens? )?(le",
)
SAMPLED = (
    *("test_long_histories.py", "test_every_form.py", "test_failure_patterns.py"),
    *("test_mutations.py", "test_ndjson.py", "test_policy_pictures.py", "test_diagram.py"),
    *("test_page.py", "test_nonsense.py", "test_readers.py", "test_scripts.py"),
)
CHOOSING = ("test_matrix.py", "test_mixed_chains.py")
"""Every run takes a quarter of the cases of each test in `SAMPLED`, and in `end_to_end/` but for `CHOOSING`.

Those choose their cases themselves: thousands of like calls go over HTTP there."""


def _is_sampled(item: pytest.Item) -> bool:
    name, folder = item.path.name, item.path.parent.name
    return name in SAMPLED or (folder == "end_to_end" and name not in CHOOSING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `.ci/run full` what takes long and cannot say so itself."""
    sampled: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if any(name in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.full)
        elif item.get_closest_marker("full") is None and _is_sampled(item):
            sampled[item.nodeid.partition("[")[0]].append(item)
    for cases in sampled.values():
        by_chance = sorted(cases, key=lambda item: crc32(item.nodeid.encode()))  # so that no mode is left out
        for item in by_chance[-(-len(cases) // 4) :]:
            item.add_marker(pytest.mark.full)


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage the walk over thousands of tests, which stay to the end."""
    gc.collect()
    gc.freeze()
